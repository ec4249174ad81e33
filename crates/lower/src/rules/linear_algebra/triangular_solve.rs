//! triangular_solve(a, b) → Loop over the unknowns: each is divided by its diagonal element, and
//! its multiple of a column is subtracted from the right-hand sides

use onnx::Attrs;
use tensor::Dim;

use super::matrix;
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let left: bool = cx.param("left_side")?;
    let lower: bool = cx.param("lower")?;
    let transpose: bool = cx.param("transpose_a")?;
    let conjugate: bool = cx.param("conjugate_a")?;
    let unit: bool = cx.param("unit_diagonal")?;
    let (mut a, mut b) = (Parts::read(cx, x[0])?, Parts::read(cx, x[1])?);
    if matrix::is_empty(cx, b) {
        return Ok(vec![x[1]]);
    }
    if conjugate {
        a = a.conj(cx)?;
    }
    // Solving from the right is solving the transposed equation.
    if transpose == left {
        a = a.transpose(cx)?;
    }
    if !left {
        b = b.transpose(cx)?;
    }
    let forward = lower != (transpose == left);
    let mut solution = solve(cx, a, b, forward, unit)?;
    if !left {
        solution = solution.transpose(cx)?;
    }
    Ok(vec![solution.write(cx, 0)?])
}

/// Solves ax = b, where `a` is lower triangular if `forward`, and upper triangular otherwise. The
/// other triangle may hold anything, because it only affects unknowns that are already solved.
#[track_caller]
pub(crate) fn solve(
    cx: &mut Context<'_>,
    a: Parts,
    b: Parts,
    forward: bool,
    unit: bool,
) -> Result<Parts> {
    let (n, _) = matrix::sides(cx, a);
    let last = cx.dims(&[n.clone() - Dim::Known(1)])?;
    let done = repeat(cx, &n, &[b], |cx, at, carry| {
        let at = if forward { at } else { cx.op("Sub", &[last, at], Attrs::new())? };
        let column = a.take(cx, -1, at)?;
        let mut unknown = carry[0].take(cx, -2, at)?;
        if !unit {
            let pivot = column.take(cx, -2, at)?;
            unknown = unknown.div(cx, pivot)?;
        }
        let share = column.mul(cx, unknown)?;
        let rest = carry[0].sub(cx, share)?;
        Ok(Iteration { carry: vec![rest], stack: vec![unknown] })
    })?;
    let rows = done.stack[0];
    let rows = if forward { rows } else { matrix::reversed(cx, rows, &[0])? };
    matrix::from_rows(cx, rows)
}
