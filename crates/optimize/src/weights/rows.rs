//! Weights in blocks along their last axis, of which only the rows that are looked up are widened.
//!
//! `Gather` moves whole bytes. So a byte holds a four-bit integer of each half of a row, and
//! both halves are separated after the lookup: shifted to the upper half of a byte, where they are
//! sixteen times as large. The product of a tied embedding reads the same bytes. Runtimes separate
//! and transpose them once, when they load the model.

use onnx::{Builder, Editor, NodeId, ValueId, attrs};
use tensor::{Blocks, DType, Quantized, ReduceError, Tensor};

use super::{Error, NAME, beside, name_parts};

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

/// The constants of a quantised weight.
#[derive(Clone, Copy)]
struct Stored {
    values: ValueId,
    scales: ValueId,
    zeros: Option<ValueId>,
    blocks: Blocks,
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
    let values = graph.add_constant(parts.values);
    let scales = graph.add_constant(parts.scales);
    let zeros = parts.zero_points.map(|zeros| graph.add_constant(zeros));
    let stored = Stored { values, scales, zeros, blocks };
    for id in lookups {
        let mark = edit.mark();
        let mut builder = edit.builder(NAME, *id);
        let indices = builder.graph().node(*id).input(1);
        let indices =
            indices.ok_or_else(|| onnx::Error::Graph("a lookup of nothing".to_owned()))?;
        let rows = stored.rows(&mut builder, indices)?;
        let rows = builder.cast(rows, wide)?;
        edit.replace(NAME, *id, &[rows], &edit.added_since(mark))?;
    }
    for old in transposed {
        let wide = edit.graph().ty(*old).dtype;
        let mut builder = beside(edit, *old)?;
        let matrix = stored.transposed(&mut builder, wide)?;
        let (before, after) = (edit.graph().producer(*old), edit.graph().producer(matrix));
        edit.replace_uses(*old, matrix);
        if let Some(before) = before {
            edit.remove_unread(before, after.as_slice());
        }
        edit.graph_mut().set_name(matrix, format!("{name}/{}", wide.numpy_name()));
    }
    let graph = edit.graph_mut();
    name_parts(graph, &name, scales, zeros);
    graph.move_name(value, values);
    Ok(())
}

impl Stored {
    fn packs(&self) -> bool {
        self.blocks.dtype.bits() == 4
    }

    /// Emits a lookup of rows, widened to `float32`.
    fn rows(&self, builder: &mut Builder<'_>, indices: ValueId) -> Result<ValueId, Error> {
        let gather = |builder: &mut Builder<'_>, table: ValueId| {
            builder.op("Gather", &[table, indices], attrs! { axis: 0 })
        };
        let mut rows = gather(builder, self.values)?;
        let scales = gather(builder, self.scales)?;
        let mut scales = builder.cast(scales, DType::F32)?;
        if self.packs() {
            let four = builder.int(DType::U8, 4)?;
            let mask = builder.int(DType::U8, 0xf0)?;
            let first = builder.op("BitShift", &[rows, four], attrs! { direction: "LEFT" })?;
            let second = builder.op("BitwiseAnd", &[rows, mask], attrs! {})?;
            rows = builder.op("Concat", &[first, second], attrs! { axis: -1 })?;
            if self.blocks.dtype == DType::I4 {
                // The bits are those of the signed integer.
                rows = builder.cast(rows, DType::I8)?;
            }
            let factor = builder.scalar(DType::F32, 1.0 / UPPER)?;
            scales = builder.op("Mul", &[scales, factor], attrs! {})?;
        }
        let mut operands = vec![rows, scales];
        if let Some(zeros) = self.zeros {
            operands.push(gather(builder, zeros)?);
        }
        self.dequantized(builder, &operands, -1)
    }

    /// Emits the transposed matrix, whose blocks run along columns.
    fn transposed(&self, builder: &mut Builder<'_>, wide: DType) -> Result<ValueId, Error> {
        let (mut values, mut zeros) = (self.values, self.zeros);
        if self.packs() {
            let four = builder.int(DType::U8, 4)?;
            let shift = |builder: &mut Builder<'_>, value: ValueId| {
                builder.op("BitShift", &[value, four], attrs! { direction: "RIGHT" })
            };
            let second = shift(builder, values)?;
            let both = builder.op("Concat", &[values, second], attrs! { axis: 1 })?;
            // A cast keeps the lower bits.
            values = builder.cast(both, self.blocks.dtype)?;
            if let Some(upper) = zeros {
                let lower = shift(builder, upper)?;
                zeros = Some(builder.cast(lower, self.blocks.dtype)?);
            }
        }
        let values = builder.transpose(values, &[1, 0])?;
        let scales = builder.transpose(self.scales, &[1, 0])?;
        let scales = builder.cast(scales, wide)?;
        let mut operands = vec![values, scales];
        if let Some(zeros) = zeros {
            operands.push(builder.transpose(zeros, &[1, 0])?);
        }
        self.dequantized(builder, &operands, 0)
    }

    fn dequantized(
        &self,
        builder: &mut Builder<'_>,
        operands: &[ValueId],
        axis: i64,
    ) -> Result<ValueId, Error> {
        #[expect(clippy::cast_possible_wrap, reason = "a size that fits the memory")]
        let attrs = attrs! { axis: axis, block_size: self.blocks.size as i64 };
        Ok(builder.op("DequantizeLinear", operands, attrs)?)
    }
}
