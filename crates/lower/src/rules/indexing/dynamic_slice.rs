//! dynamic_slice[slice_sizes](x, starts…) → Slice for constant starts, and Gather along each other
//! axis, which keeps the shape known; starts are clamped

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use super::indices;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let sizes: Vec<Dim> = cx.param("slice_sizes")?;
    let (operand, starts) = (x[0], &x[1..]);
    let shape = cx.shape(operand).to_vec();
    let (mut axes, mut first, mut last) = (Vec::new(), Vec::new(), Vec::new());
    let mut moving = Vec::new();
    for (axis, (size, start)) in sizes.iter().zip(starts).enumerate() {
        if *size == shape[axis] {
            continue;
        }
        match known_start(cx, *start, &shape[axis], size) {
            Some(start) => {
                axes.push(axis as i64);
                last.push(start.clone() + size.clone());
                first.push(start);
            }
            None => moving.push(axis),
        }
    }
    let mut value = cx.slice(operand, &axes, &first, &last, &vec![1; axes.len()])?;
    for axis in moving {
        let limit = shape[axis].clone() - sizes[axis].clone();
        let start = start(cx, starts[axis], &limit)?;
        let mut at = cx.unsqueeze(start, &[0])?;
        if sizes[axis] != Dim::Known(1) {
            let offsets = indices::count(cx, &sizes[axis])?;
            at = cx.op("Add", &[at, offsets], Attrs::new())?;
        }
        value = cx.op("Gather", &[value, at], attrs! { axis: axis as i64 })?;
    }
    Ok(vec![value])
}

/// Returns the start of a slice of `size` in an axis of `extent`, if it is a constant.
pub(crate) fn known_start(
    cx: &Context<'_>,
    start: ValueId,
    extent: &Dim,
    size: &Dim,
) -> Option<Dim> {
    let start = *cx.facts().constant(start)?.to_i64s()?.first()?;
    match extent.clone() - size.clone() {
        Dim::Known(limit) => Some(Dim::Known(start.clamp(0, limit.max(0)))),
        // A start of at most zero is clamped to zero, whatever the limit is.
        Dim::Symbolic(_) => (start <= 0).then_some(Dim::Known(0)),
    }
}

/// Returns a start as a 64-bit scalar between zero and `limit`.
#[track_caller]
pub(crate) fn start(cx: &mut Context<'_>, start: ValueId, limit: &Dim) -> Result<ValueId> {
    let limits = std::slice::from_ref(limit);
    let start = indices::comparable(cx, start, limits)?;
    if limit.as_known().is_some() {
        let clamped = indices::inside(cx, start, limits)?;
        return Ok(cx.cast(clamped, DType::I64)?);
    }
    let vector = cx.unsqueeze(start, &[0])?;
    let clamped = indices::inside(cx, vector, limits)?;
    Ok(cx.squeeze(clamped, &[0])?)
}
