//! qr[full_matrices, pivoting](a) → Householder reflectors and their product, with LAPACK's signs

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim, DimOp};

use super::lu;
use super::matrix;
use super::reflectors::{self, Reflector, Reflectors};
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let full: bool = cx.param("full_matrices")?;
    let pivoting: bool = cx.param_or("pivoting", false)?;
    let a = Parts::read(cx, x[0])?;
    let (m, n) = matrix::sides(cx, a);
    let least = Dim::op(DimOp::Min, &m, &n);
    let inner = if full { m.clone() } else { least };
    if matrix::is_empty(cx, a) {
        return empty(cx, a, &m, &inner, pivoting);
    }
    let (reflectors, triangle, order) = match pivoting {
        false => {
            let (reflectors, triangle) = reflectors::factor(cx, a)?;
            (reflectors, triangle, None)
        }
        true => {
            let (reflectors, triangle, order) = pivoted(cx, a)?;
            (reflectors, triangle, Some(order))
        }
    };
    let q = reflectors.product(cx, &inner)?.write(cx, 0)?;
    let r = matrix::padded(cx, triangle, &inner, &n)?.write(cx, 1)?;
    let mut results = vec![q, r];
    if let Some(order) = order {
        results.push(Parts::Real(order));
    }
    Ok(results)
}

fn empty(
    cx: &mut Context<'_>,
    a: Parts,
    m: &Dim,
    inner: &Dim,
    pivoting: bool,
) -> Result<Vec<Parts>> {
    let q = matrix::identity(cx, m, inner, a)?.write(cx, 0)?;
    let mut results = vec![q, Parts::zeros(cx, 1, a)?];
    if pivoting {
        results.push(Parts::zeros(cx, 2, Parts::Real(a.re()))?);
    }
    Ok(results)
}

/// Factors like [`reflectors::factor`], with columns in an order (…, n) that takes the longest
/// remaining one first.
fn pivoted(cx: &mut Context<'_>, a: Parts) -> Result<(Reflectors, Parts, ValueId)> {
    let (m, n) = matrix::sides(cx, a);
    let places = matrix::places(cx, &m)?;
    let numbers = indices::count(cx, &n)?;
    let order = cx.unsqueeze(numbers, &[0])?;
    let order = matrix::batched(cx, order, a)?;
    let steps = Dim::op(DimOp::Min, &m, &n);
    let done = repeat(cx, &steps, &[a, Parts::Real(order)], |cx, at, carry| {
        let (rest, order) = (carry[0], carry[1].re());
        let from = cx.op("GreaterOrEqual", &[places, at], Attrs::new())?;
        let below = rest.keep(cx, from)?;
        let norms = reflectors::norm_of_columns(cx, below)?;
        let least = cx.scalar_like(norms, -1.0)?;
        let left = cx.op("GreaterOrEqual", &[numbers, at], Attrs::new())?;
        let norms = cx.op("Where", &[left, norms, least], Attrs::new())?;
        let longest = cx.op("ArgMax", &[norms], attrs! { axis: -1, keepdims: true })?;
        let (order, _) = lu::swap(cx, order, numbers, at, longest, -1)?;
        let rest = exchange(cx, rest, numbers, at, longest)?;

        let column = rest.take(cx, -1, at)?;
        let (reflector, _) = Reflector::of_column(cx, column, places, at)?;
        let rest = reflector.adjoint(cx)?.apply(cx, rest)?;
        let carry = vec![rest, Parts::Real(order)];
        Ok(Iteration { carry, stack: vec![reflector.vector, reflector.tau] })
    })?;
    let vectors = matrix::from_columns(cx, done.stack[0])?;
    let taus = matrix::from_columns(cx, done.stack[1])?;
    let triangle = matrix::upper(cx, done.carry[0], 0)?;
    let triangle = triangle.slice(cx, -2, &Dim::Known(0), &steps)?;
    let order = cx.squeeze(done.carry[1].re(), &[-2])?;
    Ok((Reflectors { vectors, taus }, triangle, cx.cast(order, DType::I32)?))
}

/// Exchanges the columns `at` and `other` (…, 1, 1) of `x`.
fn exchange(
    cx: &mut Context<'_>,
    x: Parts,
    numbers: ValueId,
    at: ValueId,
    other: ValueId,
) -> Result<Parts> {
    let here = x.take(cx, -1, at)?;
    let shape = cx.shape(here.re()).to_vec();
    let wide = cx.expand(other, &shape)?;
    let there = x.pick(cx, -1, wide)?;
    let is_other = cx.op("Equal", &[numbers, other], Attrs::new())?;
    let swapped = here.or(cx, is_other, x)?;
    let is_here = cx.op("Equal", &[numbers, at], Attrs::new())?;
    there.or(cx, is_here, swapped)
}
