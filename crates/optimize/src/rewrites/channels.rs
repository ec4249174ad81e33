//! Operands with one number per channel, in any spelling.

use onnx::ValueId;
use onnx::operators::Operator;
use tensor::Dim;

use crate::{Match, Skip};

/// Returns `true` if `value` broadcasts along axis `axis` of `rank` axes only, and has one element
/// per channel.
pub(crate) fn is_of_channels(
    m: &Match<'_>,
    value: ValueId,
    rank: usize,
    axis: usize,
    channels: &Dim,
) -> bool {
    let shape = &m.ty(value).shape;
    let Some(added) = rank.checked_sub(shape.len()) else { return false };
    let size = |i: usize| i.checked_sub(added).and_then(|i| shape.get(i));
    let fits = |i: usize| match size(i) {
        Some(dim) if i == axis => dim == channels,
        Some(dim) => *dim == Dim::Known(1),
        // A single channel needs no axis.
        None => i != axis || *channels == Dim::Known(1),
    };
    (0..rank).all(fits)
}

/// Converts a value with one number per channel to a vector.
pub(crate) fn vector(m: &mut Match<'_>, value: ValueId, channels: &Dim) -> Result<ValueId, Skip> {
    let mut value = value;
    while let Some(node) = m.producer_with(value, is_spread) {
        let source = node.input(0).ok_or("an operand is left out")?;
        let whole = m.ty(source).shape.iter().filter(|dim| **dim != Dim::Known(1));
        // An `Expand` of fewer elements is not a mere reshape.
        if !whole.eq([channels].into_iter().filter(|dim| **dim != Dim::Known(1))) {
            break;
        }
        value = source;
    }
    if m.ty(value).rank() == 1 {
        return Ok(value);
    }
    let size = channels.as_known().ok_or("the number of channels is not known")?;
    let shape = m.i64s(&[size]);
    m.op("Reshape", &[value, shape], onnx::Attrs::new())
}

/// Returns `true` if the operator reshapes or repeats its first operand and nothing else.
pub(crate) fn is_spread(op: &Operator) -> bool {
    op.is_reshape() || op.name == "Expand"
}
