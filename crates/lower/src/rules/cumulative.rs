//! cumsum[axis, reverse](x) → CumSum; cumprod, cummax, cummin and cumlogsumexp combine each element
//! with the one 1 before it, then 2, then 4, …

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use super::monoid::Monoid;
use super::{Result, indices, pad};
use crate::{Context, RuleError};

const ZERO: Dim = Dim::Known(0);

pub(super) fn sum(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (axis, reverse): (i64, bool) = (cx.param("axis")?, cx.param("reverse")?);
    #[expect(clippy::cast_precision_loss, reason = "axes are few")]
    let axis = cx.scalar(DType::I64, axis as f64)?;
    Ok(vec![cx.op("CumSum", &[x[0], axis], attrs! { reverse: reverse })?])
}

pub(super) fn prod(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    scan(cx, x[0], Step::Monoid(Monoid::Mul))
}

pub(super) fn max(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    scan(cx, x[0], Step::Monoid(Monoid::Max))
}

pub(super) fn min(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    scan(cx, x[0], Step::Monoid(Monoid::Min))
}

pub(super) fn logsumexp(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    scan(cx, x[0], Step::LogAddExp)
}

#[derive(Clone, Copy)]
enum Step {
    Monoid(Monoid),
    LogAddExp,
}

impl Step {
    fn identity(self, cx: &mut Context<'_>, dtype: DType) -> Result<ValueId> {
        match self {
            Step::Monoid(monoid) => monoid.identity(cx, dtype),
            Step::LogAddExp => Monoid::Max.identity(cx, dtype),
        }
    }

    fn combine(self, cx: &mut Context<'_>, a: ValueId, b: ValueId) -> Result<ValueId> {
        if let Step::Monoid(monoid) = self {
            return monoid.combine(cx, a, b);
        }
        // log(eᵃ + eᵇ) = max + log(1 + e^(min - max)); equal infinities have no difference.
        let larger = cx.op("Max", &[a, b], Attrs::new())?;
        let smaller = cx.op("Min", &[a, b], Attrs::new())?;
        let difference = cx.op("Sub", &[smaller, larger], Attrs::new())?;
        let (equal, zero) = (cx.op("Equal", &[a, b], Attrs::new())?, cx.scalar_like(a, 0.0)?);
        let difference = cx.op("Where", &[equal, zero, difference], Attrs::new())?;
        let rest = cx.op("Softplus", &[difference], Attrs::new())?;
        Ok(cx.op("Add", &[larger, rest], Attrs::new())?)
    }

    /// What `combine` makes of all elements along an axis.
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

fn scan(cx: &mut Context<'_>, x: ValueId, step: Step) -> Result {
    let (axis, reverse): (usize, bool) = (cx.param("axis")?, cx.param("reverse")?);
    let Some(extent) = cx.shape(x)[axis].as_known() else {
        return triangle(cx, x, step, axis, reverse);
    };
    let identity = step.identity(cx, cx.dtype(x))?;
    let (mut value, mut distance) = (x, 1);
    while distance < extent {
        let still = vec![ZERO; cx.rank(x)];
        let (mut more, mut less) = (still.clone(), still);
        (more[axis], less[axis]) = (Dim::Known(distance), Dim::Known(-distance));
        let (low, high) = if reverse { (less, more) } else { (more, less) };
        let shifted = pad::edges(cx, value, identity, &low, &high)?;
        value = step.combine(cx, value, shifted)?;
        distance *= 2;
    }
    Ok(vec![value])
}

/// For an extent that is not known: a row for every element, that holds those to combine it with.
fn triangle(cx: &mut Context<'_>, x: ValueId, step: Step, axis: usize, reverse: bool) -> Result {
    if cx.dtype(x) == DType::Bool {
        return Err(RuleError::unsupported("a cumulative operation on booleans of symbolic size"));
    }
    let extent = cx.shape(x)[axis].clone();
    let identity = step.identity(cx, cx.dtype(x))?;
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
    Ok(vec![step.reduce(cx, rows, axis as i64 + 1)?])
}
