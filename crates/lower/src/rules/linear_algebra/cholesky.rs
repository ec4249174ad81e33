//! cholesky(a) → Loop over columns: each is divided by the root of its pivot, and its outer product
//! is subtracted; NaN for a matrix that is not positive definite

use onnx::{Attrs, ValueId};

use super::matrix;
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let a = Parts::read(cx, x[0])?;
    if matrix::is_empty(cx, a) {
        return Ok(vec![x[0]]);
    }
    let (n, _) = matrix::sides(cx, a);
    // Only the lower triangle matters. Garbage above the diagonal never propagates below it.
    let done = repeat(cx, &n, &[a], |cx, at, carry| {
        let column = carry[0].take(cx, -1, at)?;
        let pivot = column.take(cx, -2, at)?.re();
        let root = cx.op("Sqrt", &[pivot], Attrs::new())?;
        let column = column.over(cx, root)?;
        let row = column.adjoint(cx)?;
        let outer = column.mul(cx, row)?;
        let rest = carry[0].sub(cx, outer)?;
        Ok(Iteration { carry: vec![rest], stack: vec![column, Parts::Real(root)] })
    })?;
    let columns = matrix::from_columns(cx, done.stack[0])?;
    let factor = matrix::lower(cx, columns, -1)?;
    let roots = matrix::from_scalars(cx, done.stack[1])?.re();
    let factor = with_diagonal(cx, factor, roots)?;

    let zero = cx.scalar_like(roots, 0.0)?;
    let positive = cx.op("Greater", &[roots, zero], Attrs::new())?;
    let ok = matrix::all(cx, positive, &[-1])?;
    let ok = cx.unsqueeze(ok, &[-1])?;
    let factor = matrix::or_nan(cx, ok, factor)?;
    Ok(vec![factor.write(cx, 0)?])
}

/// Replaces the diagonals of `x` with the real vectors (…, n).
fn with_diagonal(cx: &mut Context<'_>, x: Parts, diagonal: ValueId) -> Result<Parts> {
    let (n, _) = matrix::sides(cx, x);
    let (row, column) = (matrix::places(cx, &n)?, indices::count(cx, &n)?);
    let beside = cx.op("Equal", &[row, column], Attrs::new())?;
    let beside = cx.op("Not", &[beside], Attrs::new())?;
    let diagonal = cx.unsqueeze(diagonal, &[-1])?;
    x.or(cx, beside, Parts::Real(diagonal))
}
