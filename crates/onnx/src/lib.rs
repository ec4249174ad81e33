//! ONNX: a graph arena whose every node has an origin, operator schemas, type inference, a verifier,
//! the text syntax, and reading and writing of files.

mod assumptions;
mod attr;
mod body_constants;
mod builder;
mod commit;
mod encode;
mod error;
mod external;
pub mod facts;
pub mod fold;
mod folder_lock;
pub mod formula;
mod function_constants;
mod graph;
mod infer;
mod intern;
mod listing;
mod locations;
mod map;
mod message;
mod model;
mod names;
mod outputs;
pub mod proto;
mod read;
mod save;
#[cfg(test)]
mod saving_tests;
pub mod schema;
mod set;
mod skim;
mod stream;
mod strip;
mod structure;
mod tensor_proto;
pub mod text;
mod unnamed;
mod uses;
mod verify;
mod wire;

pub use assumptions::{Assumption, Assumptions};
pub use attr::{Attr, Attrs};
pub use body_constants::separate_constants;
pub use builder::{Builder, Source};
pub use encode::{EncodeOptions, encode};
pub use error::{Error, Result};
pub use graph::{Block, BlockId, Function, Graph, Node, NodeId, Op, Producer, Value, ValueId};
pub use infer::{is_inferred, may_hold_as_many, sliced};
pub use intern::intern;
pub use listing::{ListedNode, Listing, PathError};
pub use locations::external_locations;
pub use map::{map_inputs, map_nodes};
pub use model::{LARGE, Model};
pub use names::assign_names;
pub use outputs::seal_outputs;
pub use read::{read, read_file};
pub use save::{AUTO_INLINE, GoOn, Placement, Saving, replace_file};
pub use set::Set;
pub use skim::{KEPT, skim, skim_file, skim_located};
pub use strip::{Stripped, strip_file};
pub use structure::same_values;
pub use uses::Use;
pub use verify::{
    check_node, check_opset, check_types, is_valid_at, required_opset, verify, verify_names,
};
