//! cumsum[axis, reverse](x) → CumSum; cumprod, cummax, cummin and cumlogsumexp combine each element
//! with the one at distance 1 before it, then 2, then 4, …

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use super::monoid::Monoid;
use crate::rules::Result;
use crate::rules::complex;
use crate::rules::control_flow::iteration::repeat_while;
use crate::rules::indexing::indices;
use crate::rules::movement::pad;
use crate::{Context, Parts};

const ZERO: Dim = Dim::Known(0);

pub(crate) fn sum(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (axis, reverse): (i64, bool) = (cx.param("axis")?, cx.param("reverse")?);
    #[expect(clippy::cast_precision_loss, reason = "axes are few")]
    let axis = cx.scalar(DType::I64, axis as f64)?;
    Ok(vec![cx.op("CumSum", &[x[0], axis], attrs! { reverse: reverse })?])
}

pub(crate) fn prod(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scan(cx, x, CombiningStep::Monoid(Monoid::Mul))
}

pub(crate) fn max(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scan(cx, x, CombiningStep::Monoid(Monoid::Max))
}

pub(crate) fn min(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scan(cx, x, CombiningStep::Monoid(Monoid::Min))
}

pub(crate) fn logsumexp(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scan(cx, x, CombiningStep::LogAddExp)
}

#[derive(Clone, Copy)]
enum CombiningStep {
    Monoid(Monoid),
    LogAddExp,
}

impl CombiningStep {
    fn identity(self, cx: &mut Context<'_>, like: Parts) -> Result<Parts> {
        match self {
            CombiningStep::Monoid(monoid) => monoid.identity_like(cx, like),
            CombiningStep::LogAddExp => Monoid::Max.identity_like(cx, like),
        }
    }

    fn combine(self, cx: &mut Context<'_>, a: Parts, b: Parts) -> Result<Parts> {
        match self {
            CombiningStep::Monoid(monoid) => monoid.combine(cx, a, b),
            CombiningStep::LogAddExp if a.im().is_some() => complex::log_add_exp(cx, a, b),
            CombiningStep::LogAddExp => Ok(Parts::Real(log_add_exp(cx, a.re(), b.re())?)),
        }
    }
}

/// Computes log(eᵃ + eᵇ) = max + log(1 + e^(min - max)); equal infinities have no difference.
fn log_add_exp(cx: &mut Context<'_>, a: ValueId, b: ValueId) -> Result<ValueId> {
    let larger = cx.op("Max", &[a, b], Attrs::new())?;
    let smaller = cx.op("Min", &[a, b], Attrs::new())?;
    let difference = cx.op("Sub", &[smaller, larger], Attrs::new())?;
    let (equal, zero) = (cx.op("Equal", &[a, b], Attrs::new())?, cx.scalar_like(a, 0.0)?);
    let difference = cx.op("Where", &[equal, zero, difference], Attrs::new())?;
    let rest = cx.op("Softplus", &[difference], Attrs::new())?;
    Ok(cx.op("Add", &[larger, rest], Attrs::new())?)
}

fn scan(cx: &mut Context<'_>, x: &[Parts], step: CombiningStep) -> Result<Vec<Parts>> {
    let (axis, reverse): (usize, bool) = (cx.param("axis")?, cx.param("reverse")?);
    let x = x[0];
    let identity = step.identity(cx, x)?;
    let Some(extent) = cx.shape(x.re())[axis].as_known() else {
        return Ok(vec![by_loop(cx, x, step, axis, reverse)?]);
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

/// Combines at the same distances for a symbolic extent, one per iteration of a loop.
fn by_loop(
    cx: &mut Context<'_>,
    x: Parts,
    step: CombiningStep,
    axis: usize,
    reverse: bool,
) -> Result<Parts> {
    let extent = cx.shape(x.re())[axis].clone();
    let identity = step.identity(cx, x)?;
    let places = indices::count(cx, &extent)?;
    let (one, two) = (cx.i64s(&[1]), cx.i64s(&[2]));
    let end = cx.dims(&[extent])?;
    let (toward, nearest, outside) = match reverse {
        false => ("Sub", "Max", "Less"),
        true => ("Add", "Min", "Greater"),
    };
    let edge = match reverse {
        false => cx.i64s(&[0]),
        true => cx.op("Sub", &[end, one], Attrs::new())?,
    };
    let behind: Vec<i64> = (1..(cx.rank(x.re()) - axis) as i64).collect();
    // 2⁶³ is more than any extent.
    let done = repeat_while(cx, &Dim::Known(63), &[x, Parts::Real(one)], |cx, carry| {
        let (value, distance) = (carry[0], carry[1].re());
        let others = cx.op(toward, &[places, distance], Attrs::new())?;
        let inside = cx.op(nearest, &[others, edge], Attrs::new())?;
        let outside = cx.op(outside, &[others, edge], Attrs::new())?;
        let outside = cx.unsqueeze(outside, &behind)?;
        let shifted = value.take(cx, axis as i64, inside)?;
        let shifted = identity.or(cx, outside, shifted)?;
        let value = step.combine(cx, value, shifted)?;
        let distance = cx.op("Mul", &[distance, two], Attrs::new())?;
        let go_on = cx.op("Less", &[distance, end], Attrs::new())?;
        Ok((cx.squeeze(go_on, &[0])?, vec![value, Parts::Real(distance)]))
    })?;
    Ok(done[0])
}
