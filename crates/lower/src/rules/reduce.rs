//! reduce_sum, reduce_max, … → ReduceSum, ReduceMax, …; booleans go through integers

use onnx::{ValueId, attrs};
use tensor::DType;

use super::Result;
use crate::Context;

#[track_caller]
fn reduce(cx: &mut Context<'_>, x: ValueId, op: &'static str) -> Result {
    let axes: Vec<i64> = cx.param("axes")?;
    if axes.is_empty() {
        return Ok(vec![x]);
    }
    let axes = cx.i64s(&axes);
    Ok(vec![cx.op(op, &[x, axes], attrs! { keepdims: false })?])
}

/// Any and all are the maximum and the minimum of zeros and ones.
#[track_caller]
fn reduce_bool(cx: &mut Context<'_>, x: ValueId, op: &'static str) -> Result {
    let ints = cx.cast(x, DType::U8)?;
    let reduced = reduce(cx, ints, op)?[0];
    Ok(vec![cx.cast(reduced, DType::Bool)?])
}

pub(super) fn sum(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    reduce(cx, x[0], "ReduceSum")
}

pub(super) fn prod(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    reduce(cx, x[0], "ReduceProd")
}

pub(super) fn max(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    match cx.dtype(x[0]) {
        DType::Bool => reduce_bool(cx, x[0], "ReduceMax"),
        _ => reduce(cx, x[0], "ReduceMax"),
    }
}

pub(super) fn min(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    match cx.dtype(x[0]) {
        DType::Bool => reduce_bool(cx, x[0], "ReduceMin"),
        _ => reduce(cx, x[0], "ReduceMin"),
    }
}

pub(super) fn or(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    max(cx, x)
}

pub(super) fn and(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    min(cx, x)
}
