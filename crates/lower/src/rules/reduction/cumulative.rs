//! cumsum[axis, reverse](x) → CumSum; cumprod multiplies one element after the other in blocks of 16,
//! as XLA does, then the blocks with the products before them; cummax, cummin and cumlogsumexp
//! combine each element with the one at distance 1 before it, then 2, then 4, …

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim, DimOp};

use super::monoid::Monoid;
use crate::rules::complex;
use crate::rules::control_flow::iteration::repeat_while;
use crate::rules::indexing::indices;
use crate::rules::movement::pad;
use crate::{Context, Parts, Result};

const ZERO: Dim = Dim::Known(0);
const ONE: Dim = Dim::Known(1);

/// The number of elements that XLA multiplies one after the other.
const BLOCK: i64 = 16;
const BLOCK_DIM: Dim = Dim::Known(BLOCK);

pub(crate) fn sum(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (axis, reverse): (i64, bool) = (cx.param("axis")?, cx.param("reverse")?);
    let axis = cx.int(DType::I64, axis.into())?;
    Ok(vec![cx.op("CumSum", &[x[0], axis], attrs! { reverse: reverse })?])
}

pub(crate) fn prod(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (axis, reverse): (usize, bool) = (cx.param("axis")?, cx.param("reverse")?);
    Ok(vec![products(cx, x[0], axis, reverse)?])
}

/// Multiplies in the order of XLA. In another order, a product could overflow that does not in JAX,
/// and a zero before it would make it NaN.
fn products(cx: &mut Context<'_>, x: Parts, axis: usize, reverse: bool) -> Result<Parts> {
    let shape = cx.shape(x.re()).to_vec();
    let size = shape[axis].clone();
    if size.as_known().is_some_and(|size| size <= BLOCK) {
        return Ok(running_products(cx, x, axis, reverse)?.0);
    }
    let identity = Monoid::Mul.identity_like(cx, x)?;
    let blocks = Dim::op(DimOp::FloorDiv, &(size.clone() + BLOCK_DIM - ONE), &BLOCK_DIM);
    let missing = blocks.clone() * BLOCK_DIM - size.clone();
    let mut rows = shape.clone();
    rows.splice(axis..=axis, [blocks.clone(), BLOCK_DIM]);
    let padded = moved(cx, x, identity, axis, (ZERO, missing.clone()), reverse)?;
    let rows = padded.each(cx, |cx, part| cx.reshape(part, &rows))?;
    let (within, last) = running_products(cx, rows, axis + 1, reverse)?;
    let until = match blocks {
        Dim::Known(_) => products(cx, last, axis, reverse)?,
        Dim::Symbolic(_) => by_loop(cx, last, CombiningStep::Monoid(Monoid::Mul), axis, reverse)?,
    };
    let before = moved(cx, until, identity, axis, (ONE, -ONE), reverse)?;
    let products = Monoid::Mul.combine(cx, within, before)?;
    let mut whole = shape;
    whole[axis] = blocks * BLOCK_DIM;
    let products = products.each(cx, |cx, part| cx.reshape(part, &whole))?;
    match reverse {
        false => products.slice(cx, axis as i64, &ZERO, &size),
        true => products.slice(cx, axis as i64, &missing, &whole[axis]),
    }
}

/// Multiplies one element after the other along an axis of known size. Returns the last product
/// too.
fn running_products(
    cx: &mut Context<'_>,
    x: Parts,
    axis: usize,
    reverse: bool,
) -> Result<(Parts, Parts)> {
    let count = cx.shape(x.re())[axis].as_known().unwrap_or(0);
    if count < 2 {
        return Ok((x, x));
    }
    let count = usize::try_from(count).unwrap_or(0);
    let split = |cx: &mut Context<'_>, part| {
        let attrs = attrs! { axis: axis as i64, num_outputs: count as i64 };
        cx.op_many("Split", &[part], attrs, count)
    };
    let re = split(cx, x.re())?;
    let im = x.im().map(|im| split(cx, im)).transpose()?;
    let part = |i: usize| Parts::new(re[i], im.as_ref().map(|im| im[i]));
    let mut order: Vec<usize> = (0..count).collect();
    if reverse {
        order.reverse();
    }
    let mut products = vec![part(order[0])];
    for &i in &order[1..] {
        products.push(Monoid::Mul.combine(cx, products[products.len() - 1], part(i))?);
    }
    let last = products[count - 1];
    if reverse {
        products.reverse();
    }
    let concat = |cx: &mut Context<'_>, parts: Vec<ValueId>| {
        cx.op("Concat", &parts, attrs! { axis: axis as i64 })
    };
    let all_re = concat(cx, products.iter().map(|product| product.re()).collect())?;
    let all_im = match x.im() {
        Some(_) => Some(concat(cx, products.iter().filter_map(|product| product.im()).collect())?),
        None => None,
    };
    Ok((Parts::new(all_re, all_im), last))
}

/// Adds `fill` at both ends of an axis, or removes elements. With `reverse`, the ends are exchanged.
fn moved(
    cx: &mut Context<'_>,
    x: Parts,
    fill: Parts,
    axis: usize,
    (first, last): (Dim, Dim),
    reverse: bool,
) -> Result<Parts> {
    let still = vec![ZERO; cx.rank(x.re())];
    let (mut low, mut high) = (still.clone(), still);
    (low[axis], high[axis]) = if reverse { (last, first) } else { (first, last) };
    x.zip_with(cx, fill, |cx, part, fill| pad::edges(cx, part, fill, &low, &high))
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
        let ends = (Dim::Known(distance), Dim::Known(-distance));
        let shifted = moved(cx, value, identity, axis, ends, reverse)?;
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
