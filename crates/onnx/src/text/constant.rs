//! Converts unnamed constants to the attributes of `Constant` nodes.

use tensor::{DType, Tensor};

use crate::Attr;

/// Returns the shortest attribute of a `Constant` node that expresses `tensor`.
pub(super) fn attr(tensor: &Tensor) -> (&'static str, Attr) {
    let f32s = || {
        let bytes = tensor.bytes().unwrap_or_default();
        let chunks = bytes.as_chunks::<4>().0.iter();
        chunks.map(|c| f32::from_le_bytes(*c)).collect::<Vec<_>>()
    };
    match (tensor.dtype(), tensor.shape().len()) {
        (DType::I64, 1) => ("value_ints", Attr::Ints(tensor.to_i64s().unwrap_or_default())),
        (DType::F32, 1) => ("value_floats", Attr::Floats(f32s())),
        (DType::I64, 0) => match tensor.to_i64s().as_deref() {
            Some([value]) => ("value_int", Attr::Int(*value)),
            _ => ("value", Attr::Tensor(tensor.clone())),
        },
        (DType::F32, 0) => match f32s()[..] {
            [value] => ("value_float", Attr::Float(value)),
            _ => ("value", Attr::Tensor(tensor.clone())),
        },
        _ => ("value", Attr::Tensor(tensor.clone())),
    }
}
