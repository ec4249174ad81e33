//! tridiagonal_solve(dl, d, du, b) → a Loop of eliminations with partial pivoting between adjacent
//! rows, as in LAPACK, and a Loop of back substitutions; NaN for a singular matrix, or with
//! perturb_singular the solution for a matrix close to it

use std::f64::consts::LN_2;

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use super::matrix;
use crate::formula::formulas;
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::{Context, Parts, Result};

const ONE: Dim = Dim::Known(1);

/// A row of the matrix from the diagonal on, and its right-hand sides.
type Row = [Parts; 4];

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let perturbs = cx.param_or("perturb_singular", false)?;
    let b = Parts::read(cx, x[3])?;
    if matrix::is_empty(cx, b) {
        return Ok(vec![x[3]]);
    }
    let (n, width) = matrix::sides(cx, b);
    let mut diagonals = Vec::with_capacity(3);
    for value in &x[..3] {
        let diagonal = Parts::read(cx, *value)?;
        diagonals.push(diagonal.each(cx, |cx, part| cx.unsqueeze(part, &[-1]))?);
    }
    // The last number above the diagonal is outside of the matrix, and may be anything.
    diagonals[2] = diagonals[2].slice(cx, -2, &Dim::Known(0), &(n.clone() - ONE))?;
    // A row of zeros after the last one is never chosen as a pivot.
    let more = n.clone() + ONE;
    let mut rows = [b; 4];
    for (row, diagonal) in rows.iter_mut().zip(diagonals) {
        *row = matrix::padded(cx, diagonal, &more, &ONE)?;
    }
    rows[3] = matrix::padded(cx, b, &more, &width)?;

    if perturbs {
        let triangle = eliminate(cx, rows, &n, &Pivoting::Scaled)?;
        let amount = perturbation(cx, triangle, rows, &n)?;
        return Ok(vec![substitute(cx, triangle, &n, Some(amount))?.write(cx, 0)?]);
    }
    let triangle = eliminate(cx, rows, &n, &Pivoting::Plain)?;
    let (size, zero) = (triangle[0].size(cx)?, cx.scalar_like(b.re(), 0.0)?);
    let regular = cx.op("Greater", &[size, zero], Attrs::new())?;
    let regular = matrix::all(cx, regular, &[-2, -1])?;
    let solution = substitute(cx, triangle, &n, None)?;
    Ok(vec![matrix::or_nan(cx, regular, solution)?.write(cx, 0)?])
}

/// The choice of the row that is subtracted from its neighbour.
enum Pivoting {
    /// The row with the larger first number.
    Plain,
    /// The row whose first number is the larger share of its sum. If that number is zero already,
    /// nothing is subtracted.
    Scaled,
}

/// Returns the rows of an upper triangle with two diagonals above the main one.
fn eliminate(
    cx: &mut Context<'_>,
    [below, on, above, sides]: Row,
    n: &Dim,
    pivoting: &Pivoting,
) -> Result<Row> {
    let first = cx.i64s(&[0]);
    let start = [on, above, sides].into_iter().map(|entries| entries.take(cx, -2, first));
    let mut start = start.collect::<Result<Vec<_>>>()?;
    if let Pivoting::Scaled = pivoting {
        let (a, b) = (start[0].modulus(cx)?, start[1].modulus(cx)?);
        start.push(Parts::Real(cx.op("Add", &[a, b], Attrs::new())?));
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
        let (exchange, scale) = match pivoting {
            Pivoting::Plain => {
                let (a, b) = (upper[0].size(cx)?, lower[0].size(cx)?);
                (cx.op("Less", &[a, b], Attrs::new())?, None)
            }
            Pivoting::Scaled => {
                let [exchange, scale] = compare_shares(cx, upper[0], carry[3].re(), lower)?;
                (exchange, Some(scale))
            }
        };
        let (mut pivot, mut other) = (upper, upper);
        for i in 0..4 {
            pivot[i] = lower[i].or(cx, exchange, upper[i])?;
            other[i] = upper[i].or(cx, exchange, lower[i])?;
        }
        let mut factor = other[0].div(cx, pivot[0])?;
        if let Pivoting::Scaled = pivoting {
            let (size, zero) = (other[0].size(cx)?, cx.scalar_like(other[0].re(), 0.0)?);
            let is_there = cx.op("Greater", &[size, zero], Attrs::new())?;
            factor = factor.keep(cx, is_there)?;
        }
        let mut rest = Vec::with_capacity(4);
        for i in 1..4 {
            let share = factor.mul(cx, pivot[i])?;
            rest.push(other[i].sub(cx, share)?);
        }
        if let Some(scale) = scale {
            let (a, b) = (rest[0].modulus(cx)?, rest[1].modulus(cx)?);
            let exchanged = cx.op("Add", &[a, b], Attrs::new())?;
            let scale = cx.op("Where", &[exchange, exchanged, scale], Attrs::new())?;
            rest.push(Parts::Real(scale));
        }
        Ok(Iteration { carry: rest, stack: pivot.to_vec() })
    })?;
    let mut rows = [below; 4];
    for (row, stack) in rows.iter_mut().zip(done.stack) {
        *row = matrix::from_rows(cx, stack)?;
    }
    Ok(rows)
}

/// Returns a mask of rows whose first number is a larger share than that of the row above, and the
/// sum of the row's magnitudes.
fn compare_shares(
    cx: &mut Context<'_>,
    first: Parts,
    scale: ValueId,
    lower: Row,
) -> Result<[ValueId; 2]> {
    let mut sizes = [scale; 4];
    for (size, number) in sizes.iter_mut().zip([first, lower[0], lower[1], lower[2]]) {
        *size = number.modulus(cx)?;
    }
    let [first, below, on, above] = sizes;
    let operands = [first, scale, below, on, above];
    let shares = formulas(cx, operands, |[first, scale, below, on, above]| {
        let sum = below + on + above;
        let share = first.equals(0.0).select(0.0, first / scale);
        [(below / sum).greater(share), sum]
    });
    Ok(shares?)
}

/// Returns the amount to add to a pivot that is too small (…, 1, 1): the rounding error of the
/// largest number. Like JAX, it ignores the second last row, and the first one before it is
/// exchanged.
fn perturbation(cx: &mut Context<'_>, triangle: Row, rows: Row, n: &Dim) -> Result<ValueId> {
    let sizes = triangle[..3].iter().map(|part| part.modulus(cx)).collect::<Result<Vec<_>>>()?;
    let (places, skipped) = (matrix::places(cx, n)?, cx.dims(&[n.clone() - Dim::Known(2)])?);
    let skipped = cx.op("Equal", &[places, skipped], Attrs::new())?;
    let size = cx.op("Max", &sizes, Attrs::new())?;
    let zero = cx.scalar_like(size, 0.0)?;
    let size = cx.op("Where", &[skipped, zero, size], Attrs::new())?;
    let axes = cx.i64s(&[-2, -1]);
    let mut largest = vec![cx.op("ReduceMax", &[size, axes], attrs! { keepdims: true })?];
    let first = cx.i64s(&[0]);
    for entries in &rows[1..3] {
        let entry = entries.take(cx, -2, first)?;
        largest.push(entry.modulus(cx)?);
    }
    let largest = cx.op("Max", &largest, Attrs::new())?;
    let tiny = smallest(cx, largest);
    let [amount] = formulas(cx, [largest], |[x]| [(x * x.epsilon()).max(tiny)])?;
    Ok(amount)
}

/// Returns the smallest normal number.
fn smallest(cx: &Context<'_>, x: ValueId) -> f64 {
    if cx.dtype(x) == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) }
}

/// Moves a pivot away from zero until `sides` can be divided by it: by `amount`, and repeatedly by
/// twice as much while that is not enough.
fn steadied(cx: &mut Context<'_>, pivot: Parts, sides: Parts, amount: ValueId) -> Result<Parts> {
    let (size, sides, axes) = (pivot.modulus(cx)?, sides.modulus(cx)?, cx.i64s(&[-1]));
    let largest = cx.op("ReduceMax", &[sides, axes], attrs! { keepdims: true })?;
    let tiny = smallest(cx, largest);
    let operands = [pivot.re(), size, largest, amount];
    let [re] = formulas(cx, operands, |[re, size, largest, amount]| {
        let least = largest * tiny;
        let small = size.less(1.0) & (size.equals(0.0) | least.greater(size));
        // One less than a power of two. Logarithms are not exact.
        let missing = ((least - size) / amount).max(1.0);
        let moves = -(1e-5 - (missing + 1.0).ln() / LN_2).floor();
        let amount = amount * (size.constant(2.0).pow(moves) - 1.0);
        let moved = re + re.is_negative().select(-amount, amount);
        [small.select(moved, re)]
    })?;
    Ok(Parts::new(re, pivot.im()))
}

/// Computes the unknowns, last to first.
fn substitute(
    cx: &mut Context<'_>,
    rows: Row,
    n: &Dim,
    perturbation: Option<ValueId>,
) -> Result<Parts> {
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
        let pivot = match perturbation {
            None => row[0],
            Some(amount) => steadied(cx, row[0], rest, amount)?,
        };
        let unknown = rest.div(cx, pivot)?;
        Ok(Iteration { carry: vec![unknown, carry[0]], stack: vec![unknown] })
    })?;
    let found = matrix::reversed(cx, done.stack[0], &[0])?;
    matrix::from_rows(cx, found)
}
