//! Converts unnamed constants to and from the attributes of `Constant` nodes.

use std::sync::Arc;

use tensor::{DType, Tensor};

use crate::{Attr, Attrs};

/// Returns the tensor of a `Constant` node with these attributes.
pub(super) fn tensor(attrs: &Attrs) -> Option<Tensor> {
    let [(name, value)] = attrs.as_slice() else { return None };
    match (*name, value) {
        ("value", Attr::Tensor(tensor)) => Some(tensor.clone()),
        ("value_int", Attr::Int(value)) => Tensor::int_scalar(DType::I64, i128::from(*value)),
        ("value_ints", Attr::Ints(values)) => Some(Tensor::i64s(values)),
        ("value_float", Attr::Float(value)) => floats(&[], &[*value]),
        ("value_floats", Attr::Floats(values)) => floats(&[values.len()], values),
        _ => None,
    }
}

fn floats(shape: &[usize], values: &[f32]) -> Option<Tensor> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Tensor::new(DType::F32, shape, Arc::new(bytes)).ok()
}

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
