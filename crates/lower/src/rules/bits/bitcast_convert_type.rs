//! bitcast_convert_type[new_dtype](x) → BitCast, or Cast between integers of one width; a change of
//! width splits or joins words along the last axis, the lowest word first

use onnx::{ValueId, attrs};
use tensor::{DType, Tensor};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let to = cx.out(0).dtype;
    let (old, new) = (cx.dtype(x[0]).bits(), to.bits());
    if old == new {
        return Ok(vec![reinterpret(cx, x[0], to)?]);
    }
    let bits = reinterpret(cx, x[0], cx.dtype(x[0]).unsigned())?;
    let bits = match old > new {
        true => split(cx, bits, to.unsigned())?,
        false => join(cx, bits, to.unsigned())?,
    };
    Ok(vec![reinterpret(cx, bits, to)?])
}

/// Reinterprets the bits as another type of the same width.
#[track_caller]
pub(crate) fn reinterpret(cx: &mut Context<'_>, x: ValueId, to: DType) -> Result<ValueId> {
    let from = cx.dtype(x);
    if from == to {
        return Ok(x);
    }
    if from.is_integer() && to.is_integer() {
        return Ok(cx.cast(x, to)?);
    }
    Ok(cx.op("BitCast", &[x], attrs! { to: to })?)
}

/// Returns the shift amount of each narrow word within a wide one.
fn offsets(cx: &mut Context<'_>, wide: DType, narrow: DType) -> Result<ValueId> {
    let step = narrow.bits() as usize;
    let amounts: Vec<i64> = (0..wide.bits() as usize).step_by(step).map(|n| n as i64).collect();
    let amounts = cx.constant(Tensor::i64s(&amounts));
    Ok(cx.cast(amounts, wide)?)
}

fn split(cx: &mut Context<'_>, x: ValueId, narrow: DType) -> Result<ValueId> {
    let amounts = offsets(cx, cx.dtype(x), narrow)?;
    let behind = cx.rank(x) as i64;
    let row = cx.unsqueeze(x, &[behind])?;
    let parts = cx.op("BitShift", &[row, amounts], attrs! { direction: "RIGHT" })?;
    Ok(cx.cast(parts, narrow)?)
}

fn join(cx: &mut Context<'_>, x: ValueId, wide: DType) -> Result<ValueId> {
    let amounts = offsets(cx, wide, cx.dtype(x))?;
    let parts = cx.cast(x, wide)?;
    let parts = cx.op("BitShift", &[parts, amounts], attrs! { direction: "LEFT" })?;
    let axes = cx.i64s(&[-1]);
    Ok(cx.op("ReduceSum", &[parts, axes], attrs! { keepdims: false })?)
}
