//! eigh(a) → Loop of Jacobi sweeps until the matrix is diagonal; eigenvalues in ascending order

use onnx::{Attrs, ValueId};
use tensor::Dim;

use super::jacobi::{self, Pairs};
use super::matrix;
use crate::rules::control_flow::iteration::{Iteration, repeat, repeat_while};
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let is_lower: bool = cx.param("lower")?;
    let a = Parts::read(cx, x[0])?;
    let (n, _) = matrix::sides(cx, a);
    matrix::check_subset(cx, &n, "eigenvalues")?;
    if matrix::is_empty(cx, a) {
        let values = Parts::Real(a.re());
        return Ok(vec![x[0], Parts::zeros(cx, 1, values)?]);
    }
    let a = matrix::hermitian(cx, a, is_lower)?;
    let finite = matrix::is_finite(cx, a)?;
    // One bad matrix must not end the sweeps for the rest of its batch.
    let a = a.keep(cx, finite)?;
    let (a, scale) = matrix::balanced(cx, a)?;
    let vectors = diagonalize(cx, a, &n)?;
    // Rayleigh quotients cancel the rounding errors of many rotations.
    let images = vectors.conj(cx)?.matmul(cx, a)?;
    let values = images.mul(cx, vectors)?.sum(cx, -1)?.re();
    let (values, order) = jacobi::sorted(cx, values, &n, false)?;
    let vectors = jacobi::reordered(cx, vectors, order)?.transpose(cx)?;
    let values = cx.op("Mul", &[values, scale], Attrs::new())?;
    let values = matrix::or_nan(cx, finite, Parts::Real(values))?.re();
    let values = Parts::Real(cx.squeeze(values, &[-1])?);
    let vectors = matrix::or_nan(cx, finite, vectors)?;
    Ok(vec![vectors.write(cx, 0)?, values.write(cx, 1)?])
}

/// Returns the eigenvectors of Hermitian matrices, as rows.
fn diagonalize(cx: &mut Context<'_>, a: Parts, n: &Dim) -> Result<Parts> {
    // An odd row is paired with a row of zeros, which rotations leave unchanged.
    let pairs = Pairs::new(cx, n)?;
    let even = pairs.rows();
    let a = matrix::padded(cx, a, &even, &even)?;
    let vectors = matrix::identity(cx, &even, n, a)?;
    let norm = matrix::sum_of_squares(cx, a)?;
    let epsilon = matrix::epsilon(cx, a);
    let limit = cx.scalar_like(norm, epsilon * epsilon)?;
    let limit = cx.op("Mul", &[norm, limit], Attrs::new())?;
    let zeros = pair_places(cx, &pairs)?;
    let eye = matrix::eye(cx, tensor::DType::Bool, &even, &even)?;
    let beside = cx.op("Not", &[eye], Attrs::new())?;

    let done = repeat_while(cx, &jacobi::SWEEPS, &[a, vectors], |cx, carry| {
        let sweep = repeat(cx, &(even.clone() - Dim::Known(1)), carry, |cx, _, carry| {
            let (a, vectors) = (carry[0], carry[1]);
            let [first, second, between] = corners(cx, a, &pairs.half)?;
            let by = pairs.rotations(cx, first.re(), second.re(), between)?;
            let conjugate = by.conj(cx)?;
            let rows = pairs.rotate(cx, a, conjugate)?.transpose(cx)?;
            // Columns are rotated like rows, so the matrix stays Hermitian.
            let a = pairs.rotate(cx, rows, by)?.conj(cx)?;
            let a = a.keep(cx, zeros)?;
            let vectors = pairs.rotate(cx, vectors, by)?;
            Ok(Iteration { carry: vec![a, vectors], stack: Vec::new() })
        })?;
        let rest = sweep.carry[0].keep(cx, beside)?;
        let rest = matrix::sum_of_squares(cx, rest)?;
        let more = cx.op("Greater", &[rest, limit], Attrs::new())?;
        Ok((matrix::any(cx, more)?, sweep.carry))
    })?;
    done[1].slice(cx, -2, &Dim::Known(0), n)
}

/// Returns the diagonals (…, n/2, 1) of the upper left, the lower right and the upper right
/// quarter.
fn corners(cx: &mut Context<'_>, x: Parts, half: &Dim) -> Result<[Parts; 3]> {
    let even = half.clone() + half.clone();
    let shape = cx.shape(x.re());
    let flat = [&shape[..shape.len() - 2], &[even.clone() * even.clone(), Dim::Known(1)]].concat();
    let flat = x.each(cx, |cx, part| cx.reshape(part, &flat))?;
    let one = Dim::Known(1);
    let mut at = |from: Dim| {
        // In row-major order, the next element of a diagonal is one row and one column further.
        let places = indices::steps(cx, &from, half, &(even.clone() + one.clone()))?;
        flat.take(cx, -2, places)
    };
    let below = half.clone() * (even.clone() + one.clone());
    Ok([at(Dim::Known(0))?, at(below)?, at(half.clone())?])
}

/// Returns a mask of everything but the elements that a step makes zero, after the rows and columns
/// have moved.
fn pair_places(cx: &mut Context<'_>, pairs: &Pairs) -> Result<ValueId> {
    let row = cx.unsqueeze(pairs.other, &[1])?;
    let paired = cx.op("Equal", &[row, pairs.own], Attrs::new())?;
    Ok(cx.op("Not", &[paired], Attrs::new())?)
}
