//! A model file, its nodes, and where they came from.

mod calls;
mod contents;
mod index;
mod instance;
mod makers;
mod nesting;
mod open;
mod origin;
mod torch;
mod types;

pub(crate) use calls::Chain;
pub(crate) use contents::{Contents, Trouble};
pub(crate) use index::{BodyKind, Index, Node};
pub(crate) use makers::Makers;
pub(crate) use nesting::Nesting;
pub(crate) use open::Model;
pub(crate) use origin::{Frame, Origin};
pub(crate) use types::{tensor_text, type_text};
