//! lu(a) → Loop over columns; only the permutation changes, and rows are moved at the end

use onnx::{Attrs, ValueId, attrs};
use tensor::{Dim, DimOp};

use super::matrix;
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let a = Parts::read(cx, x[0])?;
    let (m, n) = matrix::sides(cx, a);
    let (taken_type, order_type) = (cx.out(1), cx.out(2).dtype);
    let places = matrix::places(cx, &m)?;
    let initial = matrix::batched(cx, places, a)?;
    if matrix::is_empty(cx, a) {
        let none = cx.full(taken_type.dtype, 0.0, &taken_type.shape)?;
        let initial = cx.squeeze(initial, &[-1])?;
        let initial = cx.cast(initial, order_type)?;
        return Ok(vec![x[0], Parts::Real(none), Parts::Real(initial)]);
    }
    let steps = Dim::op(DimOp::Min, &m, &n);
    let never = cx.op("Less", &[initial, initial], Attrs::new())?;
    let start = [a, Parts::Real(initial), Parts::Real(never)];
    let done = repeat(cx, &steps, &start, |cx, at, carry| {
        let (rest, order, used) = (carry[0], carry[1].re(), carry[2].re());
        let column = rest.take(cx, -1, at)?;
        let pivot = pivot(cx, column, order, places, at)?;
        let (order, chosen) = swap(cx, order, places, at, pivot, -2)?;
        let mine = cx.op("Equal", &[places, chosen], Attrs::new())?;
        let used = cx.op("Or", &[used, mine], Attrs::new())?;

        let row = rest.row(cx, chosen)?;
        let factors = factors(cx, column, row, at, used)?;
        let share = factors.mul(cx, row)?;
        let rest = rest.sub(cx, share)?;
        let stack = vec![factors, row, Parts::Real(pivot)];
        Ok(Iteration { carry: vec![rest, Parts::Real(order), Parts::Real(used)], stack })
    })?;
    let order = done.carry[1].re();
    let left = matrix::from_columns(cx, done.stack[0])?;
    let shape = cx.shape(left.re()).to_vec();
    let wide = cx.expand(order, &shape)?;
    let left = left.pick(cx, -2, wide)?;
    let right = matrix::from_rows(cx, done.stack[1])?;
    let right = matrix::upper(cx, right, 0)?;
    let (left, right) = (matrix::padded(cx, left, &m, &n)?, matrix::padded(cx, right, &m, &n)?);
    let both = left.add(cx, right)?.write(cx, 0)?;
    let taken = matrix::from_scalars(cx, done.stack[2])?.re();
    let order = cx.squeeze(order, &[-1])?;
    let (taken, order) = (cx.cast(taken, taken_type.dtype)?, cx.cast(order, order_type)?);
    Ok(vec![both, Parts::Real(taken), Parts::Real(order)])
}

/// Returns the position (…, 1, 1) of the largest number in `column` at or after the position `at`.
fn pivot(
    cx: &mut Context<'_>,
    column: Parts,
    order: ValueId,
    places: ValueId,
    at: ValueId,
) -> Result<ValueId> {
    let size = column.size(cx)?;
    let size = cx.op("GatherElements", &[size, order], attrs! { axis: -2 })?;
    let behind = cx.op("GreaterOrEqual", &[places, at], Attrs::new())?;
    let least = cx.scalar_like(size, -1.0)?;
    let size = cx.op("Where", &[behind, size, least], Attrs::new())?;
    Ok(cx.op("ArgMax", &[size], attrs! { axis: -2, keepdims: true })?)
}

/// Returns the multiples of the pivot's row to subtract from the other rows, which are zero for
/// rows that are in use.
fn factors(
    cx: &mut Context<'_>,
    column: Parts,
    row: Parts,
    at: ValueId,
    used: ValueId,
) -> Result<Parts> {
    let pivot = row.take(cx, -1, at)?;
    let (size, zero) = (pivot.size(cx)?, cx.scalar_like(pivot.re(), 0.0)?);
    let some = cx.op("Equal", &[size, zero], Attrs::new())?;
    let some = cx.op("Not", &[some], Attrs::new())?;
    // If the largest number is zero, all are, and nothing is subtracted.
    let one = cx.scalar_like(pivot.re(), 1.0)?;
    let pivot = pivot.or(cx, some, Parts::Real(one))?;
    let factors = column.div(cx, pivot)?;
    let unused = cx.op("Not", &[used], Attrs::new())?;
    factors.keep(cx, unused)
}

/// Exchanges the entries of `order` at the positions `at` and `other` along an axis. Also returns
/// the entry that was at `other`.
#[track_caller]
pub(crate) fn swap(
    cx: &mut Context<'_>,
    order: ValueId,
    places: ValueId,
    at: ValueId,
    other: ValueId,
    axis: i64,
) -> Result<(ValueId, ValueId)> {
    let here = cx.op("Gather", &[order, at], attrs! { axis: axis })?;
    let there = cx.op("GatherElements", &[order, other], attrs! { axis: axis })?;
    let is_other = cx.op("Equal", &[places, other], Attrs::new())?;
    let swapped = cx.op("Where", &[is_other, here, order], Attrs::new())?;
    let is_here = cx.op("Equal", &[places, at], Attrs::new())?;
    Ok((cx.op("Where", &[is_here, there, swapped], Attrs::new())?, there))
}

/// Returns the permutation of `size` positions that results from exchanging each position with its
/// pivot, in order.
#[track_caller]
pub(crate) fn permutation(cx: &mut Context<'_>, pivots: ValueId, size: &Dim) -> Result<ValueId> {
    let shape = cx.shape(pivots).to_vec();
    let batch = &shape[..shape.len() - 1];
    let places = indices::count(cx, size)?;
    let initial = cx.expand(places, &[batch, std::slice::from_ref(size)].concat())?;
    if shape.contains(&Dim::Known(0)) {
        return Ok(initial);
    }
    let done = repeat(cx, &shape[shape.len() - 1], &[Parts::Real(initial)], |cx, at, carry| {
        let pivot = cx.op("Gather", &[pivots, at], attrs! { axis: -1 })?;
        let (order, _) = swap(cx, carry[0].re(), places, at, pivot, -1)?;
        Ok(Iteration { carry: vec![Parts::Real(order)], stack: Vec::new() })
    })?;
    Ok(done.carry[0].re())
}
