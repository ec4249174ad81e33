//! A model file, its nodes and their origins.

mod calls;
mod contents;
mod fused;
mod index;
mod instance;
mod introduced;
mod library;
mod lookup;
mod makers;
mod nesting;
mod open;
mod origin;
mod renamed;
mod torch;
mod types;

pub(crate) use calls::Chain;
pub(crate) use contents::{Contents, leaves_folder, location_property};
pub use fused::{Fused, OptimizedNode};
pub(crate) use index::{BodyKind, Index, Node};
pub(crate) use introduced::{BIASED, LAYOUTS, MERGED, RESHAPES, fused_operators, plain_operator};
pub(crate) use library::{FrameChoice, FrameOptions, Frames};
pub use lookup::Lookup;
pub(crate) use makers::Makers;
pub(crate) use nesting::{Nesting, enclosing};
pub use open::source_map_of;
pub(crate) use open::{Model, RECORDING};
pub(crate) use origin::{Origin, named_file};
pub(crate) use provenance::MapFrame as Frame;
pub use renamed::before_inlining;
pub(crate) use renamed::{NodeInBranch, is_inlined, node_in_branch, originals};
pub(crate) use types::{opset_text, tensor_text, type_text};
