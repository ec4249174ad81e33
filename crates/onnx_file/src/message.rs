//! The nesting of messages in a model file, for walking it without decoding it.

/// A message type of `onnx.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Model,
    Training,
    Graph,
    Function,
    Node,
    Attribute,
    Sparse,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    /// An entry of `metadata_props`.
    Entry,
    /// An entry of `external_data`, which locates the contents of a tensor.
    ExternalData,
}

impl Message {
    /// Returns the type of message that the field `number` contains, if any.
    pub(crate) fn field(self, number: u64) -> Option<Message> {
        use Message::{
            Attribute, Entry, ExternalData, Function, Graph, Model, Node, Shape, Sparse, Tensor,
            TensorType, Training, Type, Value,
        };
        Some(match (self, number) {
            (Model, 7) | (Training, 1 | 2) | (Attribute, 6 | 11) => Graph,
            (Model, 20) => Training,
            (Model, 25) => Function,
            (Graph, 1) | (Function, 7) => Node,
            (Graph, 5) | (Attribute, 5 | 10) | (Sparse, 1 | 2) => Tensor,
            (Graph, 15) | (Attribute, 22 | 23) => Sparse,
            (Node, 5) | (Function, 11) => Attribute,
            (Graph, 11..=13) | (Function, 12) => Value,
            (Value, 2) => Type,
            (Type, 1 | 8) => TensorType,
            (TensorType, 2) => Shape,
            (Model | Function, 14) | (Graph | Tensor, 16) | (Node, 9) | (Value, 4) => Entry,
            (Tensor, 13) => ExternalData,
            _ => return None,
        })
    }
}
