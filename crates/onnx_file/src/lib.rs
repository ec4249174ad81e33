//! ONNX files: encodes graphs as protobuf messages, and saves, reads, skims, strips and probes models.

mod added_outputs;
mod body_constants;
mod commit;
mod edits;
mod encode;
mod error;
mod external;
mod folder_lock;
mod function_constants;
mod locations;
mod map;
mod message;
mod model;
pub mod proto;
mod read;
mod reserve;
mod save;
#[cfg(test)]
mod saving_tests;
mod set;
mod skim;
mod stream;
mod strip;
mod structure;
mod tensor_proto;
mod text;
mod unnamed;
mod wire;

pub use added_outputs::add_outputs;
pub use body_constants::separate_constants;
pub use encode::{EncodeOptions, encode};
pub use error::{Error, Result};
pub use locations::external_locations;
pub use map::{map_inputs, map_nodes};
pub use model::{LARGE, Model};
pub use read::{open_regular, read, read_file};
pub use save::{AUTO_INLINE, GoOn, Pending, Placement, Saving, next_name, replace_file};
pub use set::Set;
pub use skim::{KEPT, skim, skim_file, skim_located};
pub use strip::{Stripped, strip_file};
pub use structure::same_values;
pub use text::{element_name, elements, print_model, tensor_of};
