//! tridiagonal_solve(dl, d, du, b) → a Loop of eliminations that exchange neighbouring rows where
//! that is safer, as LAPACK does, and a Loop back; NaN for a singular matrix

use onnx::Attrs;
use tensor::Dim;

use super::matrix;
use crate::rules::Result;
use crate::rules::control_flow::iteration::{Round, repeat};
use crate::{Context, Parts, RuleError};

const ONE: Dim = Dim::Known(1);

/// A row of the matrix from the diagonal on, and its right-hand sides.
type Row = [Parts; 4];

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    if cx.param_or("perturb_singular", false)? {
        return Err(RuleError::unsupported(
            "perturbing singular tridiagonal systems is not supported",
        ));
    }
    let b = Parts::read(cx, x[3])?;
    if matrix::is_empty(cx, b) {
        return Ok(vec![x[3]]);
    }
    let (n, width) = matrix::sides(cx, b);
    let mut diagonals = Vec::with_capacity(3);
    for value in &x[..3] {
        let diagonal = Parts::read(cx, *value)?;
        diagonals.push(diagonal.each(cx, |cx, part| Ok(cx.unsqueeze(part, &[-1])?))?);
    }
    // The last number above the diagonal is outside of the matrix: it may be anything.
    diagonals[2] = diagonals[2].slice(cx, -2, &Dim::Known(0), &(n.clone() - ONE))?;
    // A row of zeros after the last one is never chosen as a pivot.
    let more = n.clone() + ONE;
    let mut rows = [b; 4];
    for (row, diagonal) in rows.iter_mut().zip(diagonals) {
        *row = matrix::padded(cx, diagonal, &more, &ONE)?;
    }
    rows[3] = matrix::padded(cx, b, &more, &width)?;

    let triangle = eliminate(cx, rows, &n)?;
    let (size, zero) = (triangle[0].size(cx)?, cx.scalar_like(b.re(), 0.0)?);
    let regular = cx.op("Greater", &[size, zero], Attrs::new())?;
    let regular = matrix::all(cx, regular, &[-2, -1])?;
    let solution = substitute(cx, triangle, &n)?;
    Ok(vec![matrix::or_nan(cx, regular, solution)?.write(cx, 0)?])
}

/// The rows of an upper triangle with two diagonals above the main one.
fn eliminate(cx: &mut Context<'_>, [below, on, above, sides]: Row, n: &Dim) -> Result<Row> {
    let first = cx.i64s(&[0]);
    let mut start = Vec::with_capacity(3);
    for entries in [on, above, sides] {
        start.push(entries.take(cx, -2, first)?);
    }
    let one = cx.i64s(&[1]);
    let none = Parts::Real(cx.scalar_like(on.re(), 0.0)?).in_kind_of(cx, on)?;
    let done = repeat(cx, n, &start, |cx, at, carry| {
        let at = cx.op("Add", &[at, one], Attrs::new())?;
        let upper = [carry[0], carry[1], none, carry[2]];
        let mut lower = upper;
        for (row, entries) in lower.iter_mut().zip([below, on, above, sides]) {
            *row = entries.take(cx, -2, at)?;
        }
        let (a, b) = (upper[0].size(cx)?, lower[0].size(cx)?);
        let exchange = cx.op("Less", &[a, b], Attrs::new())?;
        let (mut pivot, mut other) = (upper, upper);
        for i in 0..4 {
            pivot[i] = lower[i].or(cx, exchange, upper[i])?;
            other[i] = upper[i].or(cx, exchange, lower[i])?;
        }
        let factor = other[0].div(cx, pivot[0])?;
        let mut rest = Vec::with_capacity(3);
        for i in 1..4 {
            let share = factor.mul(cx, pivot[i])?;
            rest.push(other[i].sub(cx, share)?);
        }
        Ok(Round { carry: rest, stack: pivot.to_vec() })
    })?;
    let mut rows = [below; 4];
    for (row, stack) in rows.iter_mut().zip(done.stack) {
        *row = matrix::from_rows(cx, stack)?;
    }
    Ok(rows)
}

/// The unknowns, the last one first.
fn substitute(cx: &mut Context<'_>, rows: Row, n: &Dim) -> Result<Parts> {
    let last = cx.dims(&[n.clone() - ONE])?;
    let mut shape = cx.shape(rows[3].re()).to_vec();
    let rank = shape.len();
    shape[rank - 2] = ONE;
    let none = Parts::Real(cx.full(cx.dtype(rows[3].re()), 0.0, &shape)?);
    let none = none.in_kind_of(cx, rows[3])?;
    let done = repeat(cx, n, &[none, none], |cx, at, carry| {
        let at = cx.op("Sub", &[last, at], Attrs::new())?;
        let mut row = rows;
        for (entries, all) in row.iter_mut().zip(rows) {
            *entries = all.take(cx, -2, at)?;
        }
        let mut rest = row[3];
        for i in 0..2 {
            let share = row[i + 1].mul(cx, carry[i])?;
            rest = rest.sub(cx, share)?;
        }
        let unknown = rest.div(cx, row[0])?;
        Ok(Round { carry: vec![unknown, carry[0]], stack: vec![unknown] })
    })?;
    let found = matrix::reversed(cx, done.stack[0], 0)?;
    matrix::from_rows(cx, found)
}
