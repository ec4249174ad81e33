//! Weights in blocks along their last axis, of which only the rows that are looked up are widened.
//!
//! `Gather` moves whole bytes. So a byte holds a four-bit integer of each half of a row, and
//! both halves are separated after the lookup: shifted to the upper half of a byte, where they are
//! sixteen times as large. The product of a tied embedding reads the same bytes. Runtimes separate
//! and transpose them once, when they load the model.

use onnx::{Builder, Editor, NodeId, ValueId, attrs};
use tensor::{Blocks, DType, Quantized, ReduceError, Tensor};

use super::{Error, NAME, Stored, beside, dequantize, replace_by_widened};

/// The factor of four-bit integers in the upper half of a byte.
const UPPER: f64 = 16.0;

/// Quantises a matrix, or a stack of matrices, in blocks along its last axis.
pub(super) fn quantized(
    tensor: &Tensor,
    blocks: Blocks,
    name: &str,
) -> Result<Quantized, ReduceError> {
    let (shape, columns) = (tensor.shape(), tensor.shape().last().copied().unwrap_or(1));
    let flat = tensor.reshaped(&[tensor.len() / columns.max(1), columns])?;
    let Quantized { values, scales, zero_points } = flat.quantized(blocks, name)?;
    let with_last = |of: Tensor| {
        let mut shape = shape.to_vec();
        let last = of.shape().last().copied();
        shape.pop();
        shape.extend(last);
        of.reshaped(&shape)
    };
    Ok(Quantized {
        values: with_last(values)?,
        scales: with_last(scales)?,
        zero_points: zero_points.map(with_last).transpose()?,
    })
}

/// Stores the parts of a weight, and widens them for its consumers.
pub(super) fn store(
    edit: &mut Editor<'_>,
    value: ValueId,
    (parts, blocks): (Quantized, Blocks),
    lookups: &[NodeId],
    transposed: &[ValueId],
) -> Result<(), Error> {
    let graph = edit.graph_mut();
    let name = graph.value(value).name.clone();
    let wide = graph.ty(value).dtype;
    let stored = Stored::add(graph, parts);
    for id in lookups {
        let mark = edit.mark();
        let mut builder = edit.builder(NAME, *id);
        let indices = builder.graph().node(*id).input(1);
        let indices =
            indices.ok_or_else(|| onnx::Error::Graph("a lookup of nothing".to_owned()))?;
        let rows = rows(&mut builder, stored, blocks, indices)?;
        let rows = builder.cast(rows, wide)?;
        edit.replace(NAME, *id, &[rows], &edit.added_since(mark))?;
    }
    for old in transposed {
        let wide = edit.graph().ty(*old).dtype;
        let mut builder = beside(edit, *old)?;
        let matrix = self::transposed(&mut builder, stored, blocks, wide)?;
        replace_by_widened(edit, *old, matrix, &name);
    }
    stored.name(edit.graph_mut(), value);
    Ok(())
}

fn packs(blocks: Blocks) -> bool {
    blocks.dtype.bits() == 4
}

/// Emits a lookup of rows, widened to `float32`.
fn rows(
    builder: &mut Builder<'_>,
    stored: Stored,
    blocks: Blocks,
    indices: ValueId,
) -> onnx::Result<ValueId> {
    let gather = |builder: &mut Builder<'_>, table: ValueId| {
        builder.op("Gather", &[table, indices], attrs! { axis: 0 })
    };
    let mut values = gather(builder, stored.values)?;
    let scales = gather(builder, stored.scales)?;
    let mut scales = builder.cast(scales, DType::F32)?;
    if packs(blocks) {
        let four = builder.int(DType::U8, 4)?;
        let mask = builder.int(DType::U8, 0xf0)?;
        let first = builder.op("BitShift", &[values, four], attrs! { direction: "LEFT" })?;
        let second = builder.op("BitwiseAnd", &[values, mask], attrs! {})?;
        values = builder.op("Concat", &[first, second], attrs! { axis: -1 })?;
        if blocks.dtype == DType::I4 {
            // The bits are those of the signed integer.
            values = builder.cast(values, DType::I8)?;
        }
        let factor = builder.scalar(DType::F32, 1.0 / UPPER)?;
        scales = builder.op("Mul", &[scales, factor], attrs! {})?;
    }
    let zeros = stored.zeros.map(|zeros| gather(builder, zeros)).transpose()?;
    dequantize(builder, Stored { values, scales, zeros }, -1, Some(blocks.size))
}

/// Emits the transposed matrix, whose blocks run along columns.
fn transposed(
    builder: &mut Builder<'_>,
    Stored { mut values, scales, mut zeros }: Stored,
    blocks: Blocks,
    wide: DType,
) -> onnx::Result<ValueId> {
    if packs(blocks) {
        let four = builder.int(DType::U8, 4)?;
        let shift = |builder: &mut Builder<'_>, value: ValueId| {
            builder.op("BitShift", &[value, four], attrs! { direction: "RIGHT" })
        };
        let second = shift(builder, values)?;
        let both = builder.op("Concat", &[values, second], attrs! { axis: 1 })?;
        // A cast keeps the lower bits.
        values = builder.cast(both, blocks.dtype)?;
        if let Some(upper) = zeros {
            let lower = shift(builder, upper)?;
            zeros = Some(builder.cast(lower, blocks.dtype)?);
        }
    }
    let values = builder.transpose(values, &[1, 0])?;
    let scales = builder.transpose(scales, &[1, 0])?;
    let scales = builder.cast(scales, wide)?;
    let zeros = zeros.map(|zeros| builder.transpose(zeros, &[1, 0])).transpose()?;
    dequantize(builder, Stored { values, scales, zeros }, 0, Some(blocks.size))
}
