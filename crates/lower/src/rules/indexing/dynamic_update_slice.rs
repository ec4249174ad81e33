//! dynamic_update_slice(x, update, starts…) → Concat around a constant start, otherwise ScatterND
//! over the axes that the update does not fill, or Where along a single one if ScatterND would take
//! too many indices; starts are clamped

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use super::dynamic_slice::{known_start, start};
use super::indices;
use crate::rules::windows::window::inverse;
use crate::{Context, Result};

const ZERO: Dim = Dim::Known(0);

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (operand, update, starts) = (x[0], x[1], &x[2..]);
    let (shape, size) = (cx.shape(operand).to_vec(), cx.shape(update).to_vec());
    if size.contains(&ZERO) {
        return Ok(vec![operand]);
    }
    let partial: Vec<usize> = (0..shape.len()).filter(|&i| size[i] != shape[i]).collect();
    match partial.as_slice() {
        [] => return Ok(vec![update]),
        [axis] => {
            let axis = *axis;
            if let Some(start) = known_start(cx, starts[axis], &shape[axis], &size[axis]) {
                return concat(cx, operand, update, axis, start);
            }
        }
        _ => {}
    }
    let last = partial[partial.len() - 1] + 1;
    let indexed = match partial.as_slice() {
        _ if indices::has_few(&size, last) => (0..last).collect(),
        [_] if last == 1 => partial,
        [_] if indices::stand_for_many(&size, last) => (0..last).collect(),
        [axis] => return select(cx, operand, update, *axis, starts[*axis]),
        _ => partial,
    };
    let mut first = Vec::with_capacity(indexed.len());
    for &axis in &indexed {
        let limit = shape[axis].clone() - size[axis].clone();
        let start = if limit == ZERO {
            cx.constant(Tensor::i64s(&[0]))
        } else {
            let start = start(cx, starts[axis], &limit)?;
            cx.unsqueeze(start, &[0])?
        };
        first.push(start);
    }
    let first = match first.as_slice() {
        [one] => *one,
        many => cx.op("Concat", many, attrs! { axis: 0 })?,
    };
    let sizes: Vec<Dim> = indexed.iter().map(|&axis| size[axis].clone()).collect();
    let places: Vec<usize> = (0..indexed.len()).collect();
    let at = indices::windows(cx, first, &sizes, &places)?;
    let rest = (0..shape.len()).filter(|axis| !indexed.contains(axis));
    let perm: Vec<usize> = indexed.iter().copied().chain(rest).collect();
    let (operand, update) = (cx.transpose(operand, &perm)?, cx.transpose(update, &perm)?);
    let result = cx.op("ScatterND", &[operand, at, update], Attrs::new())?;
    Ok(vec![cx.transpose(result, &inverse(&perm))?])
}

/// Selects every element along `axis` from the update or from the operand.
fn select(
    cx: &mut Context<'_>,
    operand: ValueId,
    update: ValueId,
    axis: usize,
    first: ValueId,
) -> Result {
    let (extent, size) = (cx.shape(operand)[axis].clone(), cx.shape(update)[axis].clone());
    let first = start(cx, first, &(extent.clone() - size.clone()))?;
    let places = indices::count(cx, &extent)?;
    let offsets = cx.op("Sub", &[places, first], Attrs::new())?;
    let (inside, update) = if size == Dim::Known(1) {
        let zero = cx.scalar(DType::I64, 0.0)?;
        (cx.op("Equal", &[offsets, zero], Attrs::new())?, update)
    } else {
        let near = indices::clamp(cx, offsets, &[size - Dim::Known(1)])?;
        let inside = cx.op("Equal", &[offsets, near], Attrs::new())?;
        (inside, cx.op("Gather", &[update, near], attrs! { axis: axis as i64 })?)
    };
    let behind: Vec<i64> = (1..(cx.rank(operand) - axis) as i64).collect();
    let inside = cx.unsqueeze(inside, &behind)?;
    Ok(vec![cx.op("Where", &[inside, update, operand], Attrs::new())?])
}

/// Concatenates the part before the update, the update, and the part after it.
fn concat(
    cx: &mut Context<'_>,
    operand: ValueId,
    update: ValueId,
    axis: usize,
    start: Dim,
) -> Result {
    let end = start.clone() + cx.shape(update)[axis].clone();
    let extent = cx.shape(operand)[axis].clone();
    let axes = [axis as i64];
    let mut parts = Vec::with_capacity(3);
    if start != ZERO {
        parts.push(cx.slice(operand, &axes, &[ZERO], &[start], &[1])?);
    }
    parts.push(update);
    if end != extent {
        parts.push(cx.slice(operand, &axes, &[end], &[extent], &[1])?);
    }
    Ok(vec![cx.op("Concat", &parts, attrs! { axis: axis as i64 })?])
}
