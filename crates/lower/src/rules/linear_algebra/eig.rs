//! eig(a) → the Schur form, with the eigenvalues on its diagonal, and a Loop of back substitutions
//! for the eigenvectors; in no particular order, as in LAPACK

use onnx::{Attrs, attrs};
use tensor::Dim;

use super::matrix;
use super::reflectors;
use super::schur::Form;
use crate::formula::formulas;
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let left: bool = cx.param("compute_left_eigenvectors")?;
    let right: bool = cx.param("compute_right_eigenvectors")?;
    let given = Parts::read(cx, x[0])?;
    let complex = Parts::Complex(given.re(), given.re());
    let a = given.in_kind_of(cx, complex)?;
    if matrix::is_empty(cx, a) {
        let count = 1 + usize::from(left) + usize::from(right);
        return (0..count).map(|i| Parts::zeros(cx, i, a)).collect();
    }
    let form = Form::of(cx, a)?;
    let mut values = diagonal(cx, form.triangle)?;
    if given.im().is_none() {
        values = realigned(cx, values, form.triangle)?;
    }
    let values = values.mul(cx, Parts::Real(form.scale))?;
    let values = matrix::or_nan(cx, form.ok, values)?;
    let values = values.each(cx, |cx, part| cx.squeeze(part, &[-2]))?;
    let mut results = vec![values.write(cx, 0)?];
    let mut push = |cx: &mut Context<'_>, vectors: Parts| -> Result<()> {
        let vectors = form.basis.matmul(cx, vectors)?;
        let vectors = normalized(cx, vectors)?;
        let vectors = matrix::or_nan(cx, form.ok, vectors)?;
        results.push(vectors.write(cx, results.len())?);
        Ok(())
    };
    if left {
        // The left vectors are the right vectors of the adjoint, which is upper triangular when
        // both axes are reversed.
        let adjoint = form.triangle.adjoint(cx)?;
        let turned = matrix::reversed(cx, adjoint, &[-2, -1])?;
        let vectors = vectors(cx, turned)?;
        let vectors = matrix::reversed(cx, vectors, &[-2, -1])?;
        push(cx, vectors)?;
    }
    if right {
        let vectors = vectors(cx, form.triangle)?;
        push(cx, vectors)?;
    }
    Ok(results)
}

/// Returns the diagonals (…, 1, n).
fn diagonal(cx: &mut Context<'_>, x: Parts) -> Result<Parts> {
    let (n, _) = matrix::sides(cx, x);
    let eye = matrix::eye(cx, tensor::DType::Bool, &n, &n)?;
    x.keep(cx, eye)?.sum(cx, -2)
}

/// Returns the eigenvalues (…, 1, n) of a real matrix. They become real if their imaginary part is
/// no larger than rounding errors.
fn realigned(cx: &mut Context<'_>, values: Parts, triangle: Parts) -> Result<Parts> {
    let Some(im) = values.im() else { return Ok(values) };
    let (_, n) = matrix::sides(cx, values);
    let norm = matrix::norm(cx, triangle)?;
    #[expect(clippy::cast_precision_loss, reason = "an estimate of rounding errors")]
    let count = n.as_known().unwrap_or(1) as f64;
    let epsilon = matrix::epsilon(cx, values) * count.max(8.0);
    let [im] = formulas(cx, [im, norm], |[im, norm]| {
        let limit = norm * epsilon;
        [im.abs().at_most(limit).select(0.0, im)]
    })?;
    Ok(Parts::Complex(values.re(), im))
}

/// Returns the eigenvectors of upper triangular matrices, as columns.
fn vectors(cx: &mut Context<'_>, triangle: Parts) -> Result<Parts> {
    let (n, _) = matrix::sides(cx, triangle);
    let (places, numbers) = (matrix::places(cx, &n)?, indices::count(cx, &n)?);
    let values = diagonal(cx, triangle)?;
    let above = matrix::upper(cx, triangle, 1)?;
    let (norm, epsilon) = (matrix::norm(cx, triangle)?, matrix::epsilon(cx, triangle));
    let [least] = formulas(cx, [norm], |[norm]| {
        let least = norm * epsilon;
        [least.equals(0.0).select(epsilon, least)]
    })?;

    let eye = matrix::identity(cx, &n, &n, triangle)?;
    let last = cx.dims(&[n.clone() - Dim::Known(1)])?;
    let one = cx.scalar_like(norm, 1.0)?;
    let done = repeat(cx, &n, &[eye], |cx, at, carry| {
        let at = cx.op("Sub", &[last, at], Attrs::new())?;
        let sum = above.take(cx, -2, at)?.matmul(cx, carry[0])?;
        let value = values.take(cx, -1, at)?;
        // Equal eigenvalues may have the same vector or arbitrary ones. A small distance in place
        // of zero finds one.
        let distance = values.sub(cx, value)?;
        let size = distance.size(cx)?;
        let apart = cx.op("GreaterOrEqual", &[size, least], Attrs::new())?;
        let distance = distance.or(cx, apart, Parts::Real(least))?;
        let row = sum.div(cx, distance)?;
        let behind = cx.op("Greater", &[numbers, at], Attrs::new())?;
        let row = row.keep(cx, behind)?;
        let here = cx.op("Equal", &[places, at], Attrs::new())?;
        let place = cx.op("And", &[here, behind], Attrs::new())?;
        let vectors = row.or(cx, place, carry[0])?;
        // Scaling keeps all elements at most one.
        let size = row.size(cx)?;
        let size = cx.op("Max", &[size, one], Attrs::new())?;
        Ok(Iteration { carry: vec![vectors.over(cx, size)?], stack: Vec::new() })
    })?;
    Ok(done.carry[0])
}

/// Scales columns to length one, with a real largest element.
fn normalized(cx: &mut Context<'_>, x: Parts) -> Result<Parts> {
    let norm = reflectors::norm_of_columns(cx, x)?;
    let x = x.over(cx, norm)?;
    let square = x.squared_modulus(cx)?;
    let largest = cx.op("ArgMax", &[square], attrs! { axis: -2, keepdims: true })?;
    let largest = x.pick(cx, -2, largest)?;
    let modulus = largest.modulus(cx)?;
    let phase = largest.conj(cx)?.over(cx, modulus)?;
    x.mul(cx, phase)
}
