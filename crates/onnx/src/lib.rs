//! ONNX: a graph arena whose every node has an origin, operator schemas, type inference, a verifier,
//! the text syntax, and reading and writing of files.

mod attr;
mod builder;
mod error;
mod graph;
mod infer;
mod intern;
pub mod schema;
pub mod text;
mod verify;

pub use attr::{Attr, Attrs};
pub use builder::{Builder, Source};
pub use error::{Error, Result};
pub use graph::{Block, BlockId, Function, Graph, Node, NodeId, Op, Producer, Use, Value, ValueId};
pub use intern::intern;
pub use verify::{check_opset, required_opset, verify};
