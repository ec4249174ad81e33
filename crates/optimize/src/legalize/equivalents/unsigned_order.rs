//! Order of 64-bit unsigned integers, by signed ones.
//!
//! Flipping the highest bit turns unsigned order into signed order, and back.

use onnx::{Builder, Node, Result, ValueId};
use tensor::{DType, Tensor};

use super::{Lack, operand};

pub(super) fn through_signed(
    b: &mut Builder<'_>,
    node: &Node,
) -> std::result::Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let flipped = flip(b, x)?;
    let signed = b.cast(flipped, DType::I64)?;
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(signed);
    let at = std::panic::Location::caller();
    let results = b.emit(node.op, inputs, node.attrs.clone(), node.outputs.len(), at)?;
    let mut back = Vec::with_capacity(results.len());
    for (old, new) in node.outputs.iter().zip(results) {
        back.push(if b.dtype(*old) == DType::U64 {
            let unsigned = b.cast(new, DType::U64)?;
            flip(b, unsigned)?
        } else {
            new
        });
    }
    Ok(back)
}

/// `x` with its highest bit inverted.
#[track_caller]
fn flip(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let highest = Tensor::int_scalar(DType::U64, 1 << 63);
    let highest = highest.ok_or_else(|| onnx::Error::Graph("2^63 is no u64".to_owned()))?;
    let highest = b.constant(highest);
    b.op("BitwiseXor", &[x, highest], onnx::Attrs::new())
}
