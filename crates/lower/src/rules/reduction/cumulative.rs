//! cumsum[axis, reverse](x) → CumSum; cumprod, cummax, cummin and cumlogsumexp combine each element
//! with the one 1 before it, then 2, then 4, …

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use super::monoid::Monoid;
use crate::rules::Result;
use crate::rules::complex;
use crate::rules::control_flow::iteration::{Round, repeat};
use crate::rules::indexing::indices;
use crate::rules::movement::pad;
use crate::{Context, Parts, RuleError};

const ZERO: Dim = Dim::Known(0);

pub(crate) fn sum(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (axis, reverse): (i64, bool) = (cx.param("axis")?, cx.param("reverse")?);
    #[expect(clippy::cast_precision_loss, reason = "axes are few")]
    let axis = cx.scalar(DType::I64, axis as f64)?;
    Ok(vec![cx.op("CumSum", &[x[0], axis], attrs! { reverse: reverse })?])
}

pub(crate) fn prod(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scan(cx, x, Step::Monoid(Monoid::Mul))
}

pub(crate) fn max(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scan(cx, x, Step::Monoid(Monoid::Max))
}

pub(crate) fn min(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scan(cx, x, Step::Monoid(Monoid::Min))
}

pub(crate) fn logsumexp(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scan(cx, x, Step::LogAddExp)
}

#[derive(Clone, Copy)]
enum Step {
    Monoid(Monoid),
    LogAddExp,
}

impl Step {
    fn identity(self, cx: &mut Context<'_>, like: Parts) -> Result<Parts> {
        match self {
            Step::Monoid(monoid) => monoid.identity_like(cx, like),
            Step::LogAddExp => Monoid::Max.identity_like(cx, like),
        }
    }

    fn combine(self, cx: &mut Context<'_>, a: Parts, b: Parts) -> Result<Parts> {
        match self {
            Step::Monoid(monoid) => monoid.combine(cx, a, b),
            Step::LogAddExp if a.im().is_some() => complex::log_add_exp(cx, a, b),
            Step::LogAddExp => Ok(Parts::Real(log_add_exp(cx, a.re(), b.re())?)),
        }
    }

    /// All elements along an axis, combined by `combine`.
    fn reduce(self, cx: &mut Context<'_>, x: ValueId, axis: i64) -> Result<ValueId> {
        let op = match self {
            Step::Monoid(Monoid::Add) => "ReduceSum",
            Step::Monoid(Monoid::Mul) => "ReduceProd",
            Step::Monoid(Monoid::Max) => "ReduceMax",
            Step::Monoid(Monoid::Min) => "ReduceMin",
            Step::LogAddExp => "ReduceLogSumExp",
        };
        let axes = cx.i64s(&[axis]);
        Ok(cx.op(op, &[x, axes], attrs! { keepdims: false })?)
    }
}

/// log(eᵃ + eᵇ) = max + log(1 + e^(min - max)); equal infinities have no difference.
fn log_add_exp(cx: &mut Context<'_>, a: ValueId, b: ValueId) -> Result<ValueId> {
    let larger = cx.op("Max", &[a, b], Attrs::new())?;
    let smaller = cx.op("Min", &[a, b], Attrs::new())?;
    let difference = cx.op("Sub", &[smaller, larger], Attrs::new())?;
    let (equal, zero) = (cx.op("Equal", &[a, b], Attrs::new())?, cx.scalar_like(a, 0.0)?);
    let difference = cx.op("Where", &[equal, zero, difference], Attrs::new())?;
    let rest = cx.op("Softplus", &[difference], Attrs::new())?;
    Ok(cx.op("Add", &[larger, rest], Attrs::new())?)
}

fn scan(cx: &mut Context<'_>, x: &[Parts], step: Step) -> Result<Vec<Parts>> {
    let (axis, reverse): (usize, bool) = (cx.param("axis")?, cx.param("reverse")?);
    let x = x[0];
    let identity = step.identity(cx, x)?;
    let Some(extent) = cx.shape(x.re())[axis].as_known() else {
        let result = match x.im() {
            None => Parts::Real(triangle(cx, x.re(), step, axis, reverse)?),
            Some(_) => by_rounds(cx, x, step, axis, reverse)?,
        };
        return Ok(vec![result]);
    };
    let (mut value, mut distance) = (x, 1);
    while distance < extent {
        let still = vec![ZERO; cx.rank(x.re())];
        let (mut more, mut less) = (still.clone(), still);
        (more[axis], less[axis]) = (Dim::Known(distance), Dim::Known(-distance));
        let (low, high) = if reverse { (less, more) } else { (more, less) };
        let shifted = value
            .zip_with(cx, identity, |cx, part, fill| pad::edges(cx, part, fill, &low, &high))?;
        value = step.combine(cx, value, shifted)?;
        distance *= 2;
    }
    Ok(vec![value])
}

/// For complex numbers and an extent that is not known: one element after the other.
fn by_rounds(
    cx: &mut Context<'_>,
    x: Parts,
    step: Step,
    axis: usize,
    reverse: bool,
) -> Result<Parts> {
    let shape = cx.shape(x.re()).to_vec();
    let mut first = shape.clone();
    first.remove(axis);
    let start = step.identity(cx, x)?.each(cx, |cx, part| cx.expand(part, &first))?;
    let last = Dim::Known(-1) + shape[axis].clone();
    let last = cx.dims(&[last])?;
    let done = repeat(cx, &shape[axis], &[start], |cx, number, carry| {
        let place = match reverse {
            false => number,
            true => cx.op("Sub", &[last, number], Attrs::new())?,
        };
        let element = x.take(cx, axis as i64, place)?;
        let element = element.each(cx, |cx, part| Ok(cx.squeeze(part, &[axis as i64])?))?;
        let sum = step.combine(cx, carry[0], element)?;
        Ok(Round { carry: vec![sum], stack: vec![sum] })
    })?;
    let perm: Vec<usize> = (1..=axis).chain([0]).chain(axis + 1..shape.len()).collect();
    done.stack[0].each(cx, |cx, part| {
        let part = match reverse {
            false => part,
            true => cx.slice(part, &[0], &[Dim::Known(-1)], &[Dim::Known(i64::MIN)], &[-1])?,
        };
        Ok(cx.transpose(part, &perm)?)
    })
}

/// For an extent that is not known: a row for every element, that holds those to combine it with.
fn triangle(
    cx: &mut Context<'_>,
    x: ValueId,
    step: Step,
    axis: usize,
    reverse: bool,
) -> Result<ValueId> {
    if cx.dtype(x) == DType::Bool {
        return Err(RuleError::unsupported(
            "cumulative operations on booleans along a symbolic dimension are not supported",
        ));
    }
    let extent = cx.shape(x)[axis].clone();
    let identity = step.identity(cx, Parts::Real(x))?.re();
    let places = indices::count(cx, &extent)?;
    let behind = cx.rank(x) - axis;
    let trailing: Vec<i64> = (1..behind as i64).collect();
    let column = cx.unsqueeze(places, &trailing)?;
    let leading: Vec<i64> = (1..=behind as i64).collect();
    let row = cx.unsqueeze(places, &leading)?;
    let op = if reverse { "GreaterOrEqual" } else { "LessOrEqual" };
    let taken = cx.op(op, &[column, row], Attrs::new())?;
    let rows = cx.unsqueeze(x, &[axis as i64])?;
    let rows = cx.op("Where", &[taken, rows, identity], Attrs::new())?;
    step.reduce(cx, rows, axis as i64 + 1)
}
