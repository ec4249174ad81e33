//! cholesky_update(r, w) → Loop over rows, each rotated with w so that the next element of w
//! vanishes

use super::matrix;
use crate::formula::{Num, formulas};
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (factor, vector) = (Parts::read(cx, x[0])?, Parts::read(cx, x[1])?);
    if matrix::is_empty(cx, factor) {
        return Ok(vec![x[0]]);
    }
    let (n, _) = matrix::sides(cx, factor);
    let vector = vector.each(cx, |cx, part| cx.unsqueeze(part, &[0]))?;
    let done = repeat(cx, &n, &[vector], |cx, at, carry| {
        let row = factor.take(cx, -2, at)?.re();
        let vector = carry[0].re();
        let pivot = Parts::Real(row).take(cx, -1, at)?.re();
        let element = Parts::Real(vector).take(cx, -1, at)?.re();
        let [row, vector] = formulas(cx, [pivot, element, row, vector], |[x, y, row, vector]| {
            let (cosine, sine) = rotation(x, y);
            let (a, b) = (cosine * row, sine * vector);
            let (c, d) = (cosine * vector, sine * row);
            [a - b, c + d]
        })?;
        Ok(Iteration { carry: vec![Parts::Real(vector)], stack: vec![Parts::Real(row)] })
    })?;
    Ok(vec![matrix::from_rows(cx, done.stack[0])?.write(cx, 0)?])
}

/// Returns the cosine and the sine of the rotation that maps (x, y) to (±|x, y|, 0).
fn rotation<'f>(x: Num<'f>, y: Num<'f>) -> (Num<'f>, Num<'f>) {
    let nothing = y.equals(0.0);
    let larger = nothing.select(1.0, x.abs().max(y.abs()));
    let (x, y) = (x / larger, y / larger);
    let x = nothing.select(1.0, x);
    let norm = (x.squared() + y.squared()).sqrt();
    (x / norm, -(y / norm))
}
