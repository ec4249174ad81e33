//! `Conv` in double precision and on integers: a product of the concatenated windows with the
//! weights.

use onnx::{Attrs, Builder, Node, ValueId, attrs};
use tensor::{DType, Dim};

use super::windows::{Windows, channels, spatial};
use super::{Lack, operand, reshape};

pub(super) fn by_windows(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let (x, w) = (operand(node, 0)?, operand(node, 1)?);
    let windows = Windows::new(node, spatial(b, node, 1)?)?;
    let [outputs, channels] = channels(b, w)?;
    let groups = node.int("group", 1);
    let dtype = b.dtype(x);
    let compute = accumulator(dtype);

    let x = b.cast(x, compute)?;
    let x = windows.pad(b, x)?;
    let slices = windows.slices(b, x)?;
    let columns = b.op("Concat", &slices, attrs! { axis: 1 })?;
    // (batch, window, group, channel, position) to (batch, group, window and channel, position).
    let (count, depth) = (windows.len() as i64, windows.len() as i64 * channels);
    let columns = reshape(b, columns, &[0, count, groups, channels, -1])?;
    let columns = b.transpose(columns, &[0, 2, 1, 3, 4])?;
    let columns = reshape(b, columns, &[0, groups, depth, -1])?;

    // (output, channel, window) to (group, output, window and channel).
    let w = b.cast(w, compute)?;
    let w = reshape(b, w, &[outputs, channels, count])?;
    let w = b.transpose(w, &[0, 2, 1])?;
    let w = reshape(b, w, &[groups, outputs / groups, depth])?;

    let product = b.op("MatMul", &[w, columns], Attrs::new())?;
    let mut result = restore(b, product, slices[0], outputs)?;
    if let Some(bias) = node.input(2) {
        let bias = b.cast(bias, compute)?;
        let axes: Vec<i64> = (1..=b.rank(x) as i64 - 2).collect();
        let bias = b.unsqueeze(bias, &axes)?;
        result = b.op("Add", &[result, bias], Attrs::new())?;
    }
    Ok(vec![b.cast(result, dtype)?])
}

/// Returns the type to accumulate in. Integers wrap around, so any type that is at least as wide
/// will do.
fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        d if d.bits() <= 32 => DType::I32,
        _ => DType::I64,
    }
}

/// Reshapes `product` to the batch and the positions of `slice`, with `outputs` channels.
fn restore(
    b: &mut Builder<'_>,
    product: ValueId,
    slice: ValueId,
    outputs: i64,
) -> onnx::Result<ValueId> {
    let known = Dim::all_known(b.shape(slice));
    if let Some(mut shape) = known {
        shape[1] = outputs;
        return reshape(b, product, &shape);
    }
    let batch = b.op("Shape", &[slice], attrs! { start: 0, end: 1 })?;
    let places = b.op("Shape", &[slice], attrs! { start: 2 })?;
    let outputs = b.i64s(&[outputs]);
    let shape = b.op("Concat", &[batch, outputs, places], attrs! { axis: 0 })?;
    b.op("Reshape", &[product, shape], Attrs::new())
}
