//! ONNX: a graph arena with an origin for every node, operator schemas, type inference, a verifier
//! and the text syntax.

mod assumptions;
mod attr;
mod builder;
mod edit;
mod error;
pub mod facts;
pub mod fold;
pub mod formula;
mod graph;
mod infer;
mod intern;
mod names;
pub mod operators;
mod outputs;
mod parts;
pub mod schema;
mod small_set;
pub mod text;
mod verify;

pub use assumptions::{Assumption, Assumptions};
pub use attr::{Attr, Attrs};
pub use builder::{Builder, Source};
pub use edit::{Editor, can_be_output, collect_operands};
pub use error::{Error, Result};
pub use graph::{Block, BlockId, Function, Graph, Node, NodeId, Op, Producer, Use, Value, ValueId};
pub use infer::{is_inferred, may_hold_as_many, sliced};
pub use intern::intern;
pub use names::{CONSTANT_PREFIX, Names, assign_names};
pub use outputs::seal_outputs;
pub use parts::{Part, reversal, reversed};
pub use verify::{
    check_node, check_opset, check_types, is_valid_at, required_opset, verify, verify_names,
};
