//! Node attributes.

use std::sync::Arc;

use tensor::{DType, Tensor};

use crate::BlockId;

/// The value of one attribute.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Attr {
    Int(i64),
    Float(f32),
    String(Arc<str>),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Strings(Vec<Arc<str>>),
    Tensor(Tensor),
    /// A subgraph: a block of the same arena.
    Graph(BlockId),
}

/// The attributes of a node, in the order that they are written in.
pub type Attrs = Vec<(&'static str, Attr)>;

/// Returns the tensor of a `Constant` node with these attributes.
pub(crate) fn constant_of(attrs: &Attrs) -> Option<Tensor> {
    let [(name, value)] = attrs.as_slice() else { return None };
    let floats = |shape: &[usize], values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor::new(DType::F32, shape, Arc::new(bytes)).ok()
    };
    match (*name, value) {
        ("value", Attr::Tensor(tensor)) => Some(tensor.clone()),
        ("value_int", Attr::Int(value)) => Tensor::int_scalar(DType::I64, i128::from(*value)),
        ("value_ints", Attr::Ints(values)) => Some(Tensor::i64s(values)),
        ("value_float", Attr::Float(value)) => floats(&[], &[*value]),
        ("value_floats", Attr::Floats(values)) => floats(&[values.len()], values),
        _ => None,
    }
}

macro_rules! from {
    ($($from:ty => |$value:ident| $to:expr;)*) => {
        $(impl From<$from> for Attr {
            fn from($value: $from) -> Self {
                $to
            }
        })*
    };
}

from! {
    i64 => |v| Attr::Int(v);
    bool => |v| Attr::Int(i64::from(v));
    f32 => |v| Attr::Float(v);
    DType => |v| Attr::Int(i64::from(v.onnx_code()));
    &str => |v| Attr::String(v.into());
    Vec<i64> => |v| Attr::Ints(v);
    &[i64] => |v| Attr::Ints(v.to_vec());
    Tensor => |v| Attr::Tensor(v);
    BlockId => |v| Attr::Graph(v);
}

/// Builds attributes from a literal: `attrs! { axis: 1, keepdims: false }`.
#[macro_export]
macro_rules! attrs {
    ($($name:ident: $value:expr),* $(,)?) => {
        vec![$((stringify!($name), $crate::Attr::from($value))),*]
    };
}
