//! reduce_prod, reduce_max, reduce_min over axes

use onnx::{Attrs, attrs};
use tensor::Dim;

use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::rules::reduction::monoid::Monoid;
use crate::{Context, Parts, Result};

pub(in crate::rules) fn prod(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    reduce(cx, x, Monoid::Mul)
}

pub(in crate::rules) fn max(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    reduce(cx, x, Monoid::Max)
}

pub(in crate::rules) fn min(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    reduce(cx, x, Monoid::Min)
}

fn reduce(cx: &mut Context<'_>, x: &[Parts], monoid: Monoid) -> Result<Vec<Parts>> {
    let reduced = monoid.reduce(cx, x[0], &cx.param::<Vec<usize>>("axes")?)?;
    let axes: Vec<i64> = cx.param("axes")?;
    Ok(vec![reduced.each(cx, |cx, part| cx.squeeze(part, &axes))?])
}

/// Multiplies over `axes`, which are kept with size one. The halves of an axis of known size are
/// multiplied until one element is left.
pub(in crate::rules) fn product(cx: &mut Context<'_>, x: Parts, axes: &[usize]) -> Result<Parts> {
    let mut x = x;
    for &axis in axes {
        x = match cx.shape(x.re())[axis].as_known() {
            Some(count) => by_halves(cx, x, axis as i64, count)?,
            None => by_loop(cx, x, axis)?,
        };
    }
    Ok(x)
}

fn by_halves(cx: &mut Context<'_>, x: Parts, axis: i64, count: i64) -> Result<Parts> {
    let (mut x, mut count) = (x, count);
    while count > 1 {
        let half = count / 2;
        let [start, middle, end] = [0, half, 2 * half].map(Dim::Known);
        let (left, right) =
            (x.slice(cx, axis, &start, &middle)?, x.slice(cx, axis, &middle, &end)?);
        let mut product = left.mul(cx, right)?;
        if count % 2 == 1 {
            let last = x.slice(cx, axis, &end, &Dim::Known(count))?;
            product = product.concat(cx, axis, last)?;
        }
        (x, count) = (product, half + count % 2);
    }
    Ok(x)
}

fn by_loop(cx: &mut Context<'_>, x: Parts, axis: usize) -> Result<Parts> {
    let mut shape = cx.shape(x.re()).to_vec();
    let extent = std::mem::replace(&mut shape[axis], Dim::Known(1));
    let one = Monoid::Mul.identity_like(cx, x)?;
    let one = one.each(cx, |cx, part| cx.expand(part, &shape))?;
    let done = repeat(cx, &extent, &[one], |cx, number, carry| {
        let factor = x.take(cx, axis as i64, number)?;
        Ok(Iteration { carry: vec![carry[0].mul(cx, factor)?], stack: Vec::new() })
    })?;
    Ok(done.carry[0])
}

/// Returns the largest or smallest number over `axes`, which are kept with size one: the extreme
/// imaginary part among the numbers with the extreme real part.
pub(in crate::rules) fn extremum(
    cx: &mut Context<'_>,
    x: Parts,
    axes: &[usize],
    largest: bool,
) -> Result<Parts> {
    let Some(im) = x.im() else { return Ok(x) };
    let (op, worst) = match largest {
        true => ("ReduceMax", f64::NEG_INFINITY),
        false => ("ReduceMin", f64::INFINITY),
    };
    let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    let axes = cx.i64s(&axes);
    let re = cx.op(op, &[x.re(), axes], attrs! { keepdims: true })?;
    let among = cx.op("Equal", &[x.re(), re], Attrs::new())?;
    let worst = cx.scalar_like(im, worst)?;
    let im = cx.op("Where", &[among, im, worst], Attrs::new())?;
    let im = cx.op(op, &[im, axes], attrs! { keepdims: true })?;
    Ok(Parts::Complex(re, im))
}
