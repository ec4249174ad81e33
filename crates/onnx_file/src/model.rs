//! A model in memory.

use std::fmt;

use prost::Message;

use crate::proto::{GraphProto, ModelProto, TensorProto};
use crate::stream::write_model;
use crate::{Error, Result};

/// Tensors of at least this many bytes may be stored separately from their model.
pub const LARGE: usize = 1024;

/// The largest message that protobuf readers accept.
pub(crate) const PROTOBUF_LIMIT: u64 = i32::MAX as u64;

/// A model as ONNX messages. It is small, because its tensors refer to bytes stored elsewhere.
#[derive(Clone, PartialEq)]
pub struct Model {
    /// The model's message.
    pub proto: ModelProto,
}

impl Model {
    /// Encodes the model as one protobuf message. Fails if the message is larger than protobuf
    /// allows.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        check_size(self.proto.encoded_len() as u64)?;
        let mut bytes = Vec::with_capacity(self.proto.encoded_len());
        write_model(&self.proto, &mut bytes).map_err(Error::contents)?;
        Ok(bytes)
    }

    /// Encodes the model as one protobuf message, without the contents of the initializers that
    /// [`Model::tensors`] returns.
    pub fn skeleton(&self) -> Vec<u8> {
        let mut proto = self.proto.clone();
        for tensor in proto.graph.iter_mut().flat_map(|g| &mut g.initializer) {
            tensor.take_contents(LARGE);
        }
        proto.encode_to_vec()
    }

    /// Returns the large initializers from index `start` on, in order and with their indices.
    pub fn tensors(&self, start: usize) -> impl Iterator<Item = (usize, &TensorProto)> {
        let all = self.proto.graph.as_ref().map_or(&[][..], |graph| &graph.initializer);
        let is_large = |tensor: &TensorProto| tensor.contents_len().is_some_and(|len| len >= LARGE);
        let rest = all.iter().enumerate().skip(start);
        rest.filter(move |(_, tensor)| is_large(tensor))
    }
}

/// Fails if a message is larger than protobuf allows.
pub(crate) fn check_size(bytes: u64) -> Result<()> {
    if bytes > PROTOBUF_LIMIT { Err(Error::TooLarge(bytes)) } else { Ok(()) }
}

impl From<ModelProto> for Model {
    fn from(proto: ModelProto) -> Self {
        Self { proto }
    }
}

/// Shows only counts, because the contents may take gigabytes.
impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let empty = GraphProto::default();
        let graph = self.proto.graph.as_ref().unwrap_or(&empty);
        let (nodes, tensors) = (graph.node.len(), graph.initializer.len());
        write!(f, "Model({:?}, {nodes} nodes, {tensors} initializers)", graph.name)
    }
}
