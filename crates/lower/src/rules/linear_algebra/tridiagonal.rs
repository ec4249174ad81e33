//! tridiagonal[lower](a) → Loop over columns, with a Householder reflector for each, applied from
//! both sides; packed as in LAPACK

use onnx::Attrs;
use tensor::Dim;

use super::matrix;
use super::reflectors::reduce_column;
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let is_lower: bool = cx.param("lower")?;
    let a = Parts::read(cx, x[0])?;
    if matrix::is_empty(cx, a) {
        let real = Parts::Real(a.re());
        let (on, beside) = (Parts::zeros(cx, 1, real)?, Parts::zeros(cx, 2, real)?);
        return Ok(vec![x[0], on, beside, Parts::zeros(cx, 3, a)?]);
    }
    // For an upper triangle, LAPACK processes columns from last to first.
    let a = if is_lower { a } else { matrix::reversed(cx, a, &[-2, -1])? };
    let mut results = reduce(cx, a)?;
    if !is_lower {
        results[0] = matrix::reversed(cx, results[0], &[-2, -1])?;
        for vector in &mut results[1..] {
            *vector = matrix::reversed(cx, *vector, &[-1])?;
        }
    }
    results.into_iter().enumerate().map(|(i, result)| result.write(cx, i)).collect()
}

/// Returns the reflectors below the diagonals, the two diagonals and the factors of the reflectors.
fn reduce(cx: &mut Context<'_>, given: Parts) -> Result<Vec<Parts>> {
    let (n, _) = matrix::sides(cx, given);
    let a = matrix::hermitian(cx, given, true)?;
    let places = matrix::places(cx, &n)?;
    let steps = n.clone() - Dim::Known(1);
    let done = repeat(cx, &steps, &[a], |cx, at, carry| {
        let step = reduce_column(cx, carry[0], places, at)?;
        let diagonal = Parts::Real(step.column.take(cx, -2, at)?.re());
        let stack = vec![step.packed, diagonal, Parts::Real(step.beta), step.reflector.tau];
        Ok(Iteration { carry: vec![step.rest], stack })
    })?;
    let last = done.carry[0].slice(cx, -1, &steps, &n)?;
    let packed = matrix::from_columns(cx, done.stack[0])?.concat(cx, -1, last)?;
    let column = indices::count(cx, &n)?;
    let is_lower = cx.op("GreaterOrEqual", &[places, column], Attrs::new())?;
    let packed = packed.or(cx, is_lower, given)?;

    let end = Parts::Real(last.slice(cx, -2, &steps, &n)?.re());
    let end = end.each(cx, |cx, part| cx.squeeze(part, &[-1]))?;
    let diagonal = matrix::from_scalars(cx, done.stack[1])?.concat(cx, -1, end)?;
    let beside = matrix::from_scalars(cx, done.stack[2])?;
    let taus = matrix::from_scalars(cx, done.stack[3])?;
    Ok(vec![packed, diagonal, beside, taus])
}
