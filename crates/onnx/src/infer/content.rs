//! Computes the elements of integer vectors that follow from shapes.
//!
//! A shape may be computed in the graph: take the batch size, multiply, concatenate. Its elements
//! are known as dimensions, so a `Reshape` to it has a type, as with a constant shape.

use tensor::bounds::{self, at_least};
use tensor::{DType, Dim, DimOp, Type, division};

use super::call::{Call, Dims};
use super::shape::reported;
use super::slice::{Slices, clamp};
use crate::attr::constant_of;
use crate::{Attr, Graph, fold};

/// The largest length of a vector that is a shape. Longer vectors are data.
const LONGEST: i64 = 64;

/// The largest number in symbolic arithmetic. Products with larger numbers may overflow when the
/// model runs, so they are unknown.
const LARGEST: i64 = 1 << 40;

/// Returns the elements of the only result of `call`, whose type is `types[0]`, if they are known.
/// This costs nothing for results that are not short integer vectors.
pub(crate) fn content(call: &Call<'_>, types: &[Type]) -> Option<Box<[Dim]>> {
    let [ty] = types else { return None };
    if ty.dtype != DType::I64 {
        return None;
    }
    let len = short_len(ty)?;
    let elements = call.op.operator().content?(call)?;
    (elements.len() == len).then(|| elements.into_boxed_slice())
}

/// Returns the length of a short vector. A scalar has one element.
fn short_len(ty: &Type) -> Option<usize> {
    match ty.shape.as_slice() {
        [] => Some(1),
        [Dim::Known(len @ 0..=LONGEST)] => usize::try_from(*len).ok(),
        _ => None,
    }
}

/// Returns the elements of a short integer operand.
fn operand(call: &Call<'_>, index: usize) -> Option<Vec<Dim>> {
    let value = call.optional(index)?;
    short_len(call.graph.ty(value))?;
    Graph::content(call.graph, value)
}

fn numbers(call: &Call<'_>, index: usize) -> Option<Vec<i64>> {
    operand(call, index)?.iter().map(Dim::as_known).collect()
}

/// Returns the elements of the first operand, in their order.
pub(crate) fn unchanged(call: &Call<'_>) -> Option<Vec<Dim>> {
    operand(call, 0)
}

pub(crate) fn concat(call: &Call<'_>) -> Option<Vec<Dim>> {
    (0..call.inputs.len()).try_fold(Vec::new(), |mut all, i| {
        all.append(&mut operand(call, i)?);
        Some(all)
    })
}

pub(crate) fn constant_of_shape(call: &Call<'_>) -> Option<Vec<Dim>> {
    repeated(numbers(call, 0)?.first(), fill(call)?)
}

pub(crate) fn add(call: &Call<'_>) -> Option<Vec<Dim>> {
    pairwise(call, sum_of)
}

pub(crate) fn sub(call: &Call<'_>) -> Option<Vec<Dim>> {
    pairwise(call, |a, b| sum_of(a, &product_of(b, &Dim::Known(-1))?))
}

pub(crate) fn mul(call: &Call<'_>) -> Option<Vec<Dim>> {
    pairwise(call, product_of)
}

pub(crate) fn div(call: &Call<'_>) -> Option<Vec<Dim>> {
    pairwise(call, quotient_of)
}

pub(crate) fn max(call: &Call<'_>) -> Option<Vec<Dim>> {
    pairwise(call, |a, b| Some(bounds::max(a, b)))
}

pub(crate) fn min(call: &Call<'_>) -> Option<Vec<Dim>> {
    pairwise(call, |a, b| Some(bounds::min(a, b)))
}

/// Computes `Mod` whose result has the sign of the divisor.
pub(crate) fn modulo(call: &Call<'_>) -> Option<Vec<Dim>> {
    if call.int("fmod", 0).ok()? == 0 { pairwise(call, remainder_of) } else { None }
}

pub(crate) fn neg(call: &Call<'_>) -> Option<Vec<Dim>> {
    operand(call, 0)?.iter().map(|dim| product_of(dim, &Dim::Known(-1))).collect()
}

pub(crate) fn product(call: &Call<'_>) -> Option<Vec<Dim>> {
    let factors = operand(call, 0)?;
    factors.iter().try_fold(Dim::Known(1), |all, dim| product_of(&all, dim)).map(|dim| vec![dim])
}

pub(crate) fn shape(call: &Call<'_>) -> Option<Vec<Dim>> {
    Some(call.ty(0).ok()?.shape[reported(call).ok()?].to_vec())
}

pub(crate) fn size(call: &Call<'_>) -> Option<Vec<Dim>> {
    Some(vec![division::product(&call.ty(0).ok()?.shape)])
}

/// Applies an operation to two vectors. Either may have a single element.
fn pairwise(call: &Call<'_>, op: impl Fn(&Dim, &Dim) -> Option<Dim>) -> Option<Vec<Dim>> {
    let [_, _] = call.inputs else { return None };
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    match (a.as_slice(), b.as_slice()) {
        ([a], b) => b.iter().map(|b| op(a, b)).collect(),
        (a, [b]) => a.iter().map(|a| op(a, b)).collect(),
        (a, b) if a.len() == b.len() => a.iter().zip(b).map(|(a, b)| op(a, b)).collect(),
        _ => None,
    }
}

/// Returns `true` if arithmetic with `dim` stays in range for every size that fits in memory.
fn is_moderate(dim: &Dim) -> bool {
    dim.as_known().is_none_or(|n| (-LARGEST..=LARGEST).contains(&n))
}

fn sum_of(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => a.checked_add(*b).map(Dim::Known),
        _ => (is_moderate(a) && is_moderate(b)).then(|| a.clone() + b.clone()),
    }
}

fn product_of(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => a.checked_mul(*b).map(Dim::Known),
        _ => (is_moderate(a) && is_moderate(b)).then(|| a.clone() * b.clone()),
    }
}

/// Returns the quotient as ONNX computes it. ONNX rounds integer division towards zero, whereas
/// dimensions round down. Both agree if nothing is negative.
fn quotient_of(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => a.checked_div(*b).map(Dim::Known),
        _ => (at_least(a, 0) && at_least(b, 1)).then(|| Dim::op(DimOp::FloorDiv, a, b)),
    }
}

fn remainder_of(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => DimOp::Mod.apply(*a, *b).map(Dim::Known),
        _ => at_least(b, 1).then(|| Dim::op(DimOp::Mod, a, b)),
    }
}

pub(crate) fn constant(call: &Call<'_>) -> Option<Vec<Dim>> {
    let numbers = constant_of(call.attrs)?.to_i64s()?;
    Some(numbers.into_iter().map(Dim::Known).collect())
}

/// Repeats `dim` `len` times. A scalar has no length.
fn repeated(len: Option<&i64>, dim: Dim) -> Option<Vec<Dim>> {
    match len {
        None => Some(vec![dim]),
        Some(len @ 0..=LONGEST) => Some(vec![dim; usize::try_from(*len).ok()?]),
        Some(_) => None,
    }
}

/// Returns the element that `ConstantOfShape` repeats.
fn fill(call: &Call<'_>) -> Option<Dim> {
    match call.attr("value") {
        Some(Attr::Tensor(value)) => value.to_i64s()?.first().copied().map(Dim::Known),
        _ => None,
    }
}

pub(crate) fn expand(call: &Call<'_>) -> Option<Vec<Dim>> {
    let mut data = operand(call, 0)?;
    match (numbers(call, 1)?.as_slice(), data.len()) {
        ([], _) => Some(data),
        ([len], 1) => repeated(Some(len), data.pop()?),
        ([len], n) if *len == 1 || usize::try_from(*len) == Ok(n) => Some(data),
        _ => None,
    }
}

pub(crate) fn range(call: &Call<'_>) -> Option<Vec<Dim>> {
    let number = |i| numbers(call, i)?.pop();
    let numbers = counted(number(0)?, number(1)?, number(2)?)?;
    Some(numbers.into_iter().map(Dim::Known).collect())
}

/// Returns the numbers from `at` to `end`, which is excluded.
fn counted(mut at: i64, end: i64, step: i64) -> Option<Vec<i64>> {
    let mut all = Vec::new();
    while (step > 0 && at < end) || (step < 0 && at > end) {
        all.push(at);
        at = at.checked_add(step)?;
    }
    Some(all)
}

pub(crate) fn gather(call: &Call<'_>) -> Option<Vec<Dim>> {
    let data = operand(call, 0)?;
    if call.ty(0).ok()?.rank() != 1 {
        return None;
    }
    let pick = |index| Some(data[fold::axis(index, data.len()).ok()?].clone());
    numbers(call, 1)?.into_iter().map(pick).collect()
}

pub(crate) fn slice(call: &Call<'_>) -> Option<Vec<Dim>> {
    let data = operand(call, 0)?;
    let slices = Slices::read(call).ok()?;
    let known = |dims: &Dims| match dims.as_slice() {
        [Dim::Known(n)] => Some(*n),
        _ => None,
    };
    let (start, end, step) = (known(&slices.starts)?, known(&slices.ends)?, *slices.steps.first()?);
    let (first, last) = clamp(data.len() as i64, start, end, step);
    let taken = |at| data.get(usize::try_from(at).ok()?).cloned();
    counted(first, last, step)?.into_iter().map(taken).collect()
}
