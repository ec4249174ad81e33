//! reduce_sum, reduce_max, … → ReduceSum, ReduceMax, …; booleans are cast to integers, bits are
//! combined in halves. reduce[jaxpr](x, start) → the same, combined with the start

use std::slice;

use jaxpr::JaxprId;
use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim, Type};

use super::monoid::Monoid;
use crate::rules::movement::pad;
use crate::{Context, Parts, Result, RuleError};

const ZERO: Dim = Dim::Known(0);

/// The largest number of booleans whose reduction takes the same time in all types. Axes of symbolic
/// size, which are examples as a rule, do not count.
const FEW: i64 = 4096;

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let jaxpr: JaxprId = cx.param("jaxpr")?;
    let (Some(monoid), [array, start]) = (Monoid::of(cx.jaxpr(jaxpr)), x) else {
        return Err(RuleError::Internal("a reduction that was not expanded".to_owned()));
    };
    let axes: Vec<usize> = cx.param("dimensions")?;
    if axes.is_empty() {
        // Nothing is combined, not even the start.
        return Ok(vec![*array]);
    }
    let identity = monoid.identity_like(cx, *array)?;
    let reduced = monoid.reduce(cx, *array, &axes)?;
    let axes: Vec<i64> = cx.param("dimensions")?;
    let reduced = reduced.each(cx, |cx, part| cx.squeeze(part, &axes))?;
    if *start == identity {
        return Ok(vec![reduced]);
    }
    Ok(vec![monoid.combine(cx, reduced, *start)?])
}

#[track_caller]
fn reduce(cx: &mut Context<'_>, x: ValueId, monoid: Monoid, op: &'static str) -> Result {
    let axes: Vec<usize> = cx.param("axes")?;
    if axes.is_empty() {
        return Ok(vec![x]);
    }
    if axes.iter().any(|axis| cx.shape(x)[*axis] == ZERO) {
        let nothing = monoid.identity(cx, cx.dtype(x))?;
        let kept = cx.shape(x).iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        let shape: Vec<Dim> = kept.map(|(_, size)| size.clone()).collect();
        return Ok(vec![cx.expand(nothing, &shape)?]);
    }
    let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
    let axes = cx.i64s(&axes);
    Ok(vec![cx.op(op, &[x, axes], attrs! { keepdims: false })?])
}

/// Reduces booleans with "any" and "all", the maximum and the minimum of zeros and ones.
#[track_caller]
fn reduce_bool(cx: &mut Context<'_>, x: ValueId, monoid: Monoid, op: &'static str) -> Result {
    let axes: Vec<usize> = cx.param("axes")?;
    let ints = zeros_and_ones(cx, x, &axes)?;
    let reduced = reduce(cx, ints, monoid, op)?[0];
    Ok(vec![cx.cast(reduced, DType::Bool)?])
}

/// Returns booleans as numbers of a type whose maximum and minimum over some axes are computed. Bytes
/// are several times as fast in large numbers, but not every runtime reduces them. Without elements,
/// the maximum of bytes is zero, and that of other integers is not.
pub(crate) fn zeros_and_ones(cx: &mut Context<'_>, x: ValueId, axes: &[usize]) -> Result<ValueId> {
    let shape = cx.shape(x);
    let is_filled = axes.iter().all(|axis| shape[*axis].as_known().is_some_and(|size| size > 0));
    let count: i64 = shape.iter().filter_map(Dim::as_known).product();
    Ok(cx.cast(x, if is_filled && count <= FEW { DType::I32 } else { DType::U8 })?)
}

pub(crate) fn sum(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    reduce(cx, x[0], Monoid::Add, "ReduceSum")
}

pub(crate) fn prod(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    reduce(cx, x[0], Monoid::Mul, "ReduceProd")
}

pub(crate) fn max(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    match cx.dtype(x[0]) {
        DType::Bool => reduce_bool(cx, x[0], Monoid::Max, "ReduceMax"),
        _ => reduce(cx, x[0], Monoid::Max, "ReduceMax"),
    }
}

pub(crate) fn min(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    match cx.dtype(x[0]) {
        DType::Bool => reduce_bool(cx, x[0], Monoid::Min, "ReduceMin"),
        _ => reduce(cx, x[0], Monoid::Min, "ReduceMin"),
    }
}

pub(crate) fn or(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    match cx.dtype(x[0]) {
        DType::Bool => max(cx, x),
        _ => {
            let zero = cx.scalar_like(x[0], 0.0)?;
            halve(cx, x[0], "BitwiseOr", zero)
        }
    }
}

pub(crate) fn and(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    match cx.dtype(x[0]) {
        DType::Bool => min(cx, x),
        _ => {
            let zero = cx.scalar_like(x[0], 0.0)?;
            let ones = cx.op("BitwiseNot", &[zero], Attrs::new())?;
            halve(cx, x[0], "BitwiseAnd", ones)
        }
    }
}

pub(crate) fn xor(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let zero = cx.scalar_like(x[0], 0.0)?;
    let op = if cx.dtype(x[0]) == DType::Bool { "Xor" } else { "BitwiseXor" };
    halve(cx, x[0], op, zero)
}

/// Combines all elements: the first half with the second, until one is left. If their number is
/// symbolic, they are combined one by one.
fn halve(cx: &mut Context<'_>, x: ValueId, op: &'static str, identity: ValueId) -> Result {
    let axes: Vec<usize> = cx.param("axes")?;
    let out = &cx.out(0).shape;
    let rest = (0..cx.rank(x)).filter(|axis| !axes.contains(axis));
    let perm: Vec<usize> = axes.iter().copied().chain(rest).collect();
    let sizes = axes.iter().map(|&axis| cx.shape(x)[axis].clone());
    let count = sizes.fold(Dim::Known(1), |count, size| count * size);
    let mut rows = cx.transpose(x, &perm)?;
    rows = cx.reshape(rows, &[slice::from_ref(&count), out.as_slice()].concat())?;
    let Dim::Known(count) = count else {
        return one_by_one(cx, rows, op, identity);
    };
    let mut size = count.max(1).unsigned_abs().next_power_of_two().cast_signed();
    let mut missing = vec![ZERO; cx.rank(rows)];
    missing[0] = Dim::Known(size - count);
    rows = pad::edges(cx, rows, identity, &vec![ZERO; missing.len()], &missing)?;
    while size > 1 {
        size /= 2;
        let sizes = cx.i64s(&[size, size]);
        let parts = cx.op_many("Split", &[rows, sizes], attrs! { axis: 0 }, 2)?;
        rows = cx.op(op, &parts, Attrs::new())?;
    }
    Ok(vec![cx.squeeze(rows, &[0])?])
}

/// Combines the rows of an array, beginning with the identity.
fn one_by_one(cx: &mut Context<'_>, rows: ValueId, op: &'static str, identity: ValueId) -> Result {
    let row = Type::new(cx.dtype(rows), &cx.shape(rows)[1..]);
    let start = cx.expand(identity, &row.shape)?;
    let body = cx.block(|cx, block| {
        let operands = cx.inputs(block, vec![row.clone(), row]);
        Ok(vec![cx.op(op, &operands, Attrs::new())?])
    })?;
    let attrs = attrs! { body: body, num_scan_inputs: 1 };
    Ok(vec![cx.op("Scan", &[start, rows], attrs)?])
}
