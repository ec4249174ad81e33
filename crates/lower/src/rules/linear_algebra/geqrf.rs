//! geqrf(a) → Loop over columns, with a Householder reflector for each; packed as in LAPACK

use super::matrix;
use super::reflectors;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let a = Parts::read(cx, x[0])?;
    if matrix::is_empty(cx, a) {
        return Ok(vec![x[0], Parts::zeros(cx, 1, a)?]);
    }
    let (m, n) = matrix::sides(cx, a);
    let (reflectors, triangle) = reflectors::factor(cx, a)?;
    let vectors = matrix::lower(cx, reflectors.vectors, -1)?;
    let vectors = matrix::padded(cx, vectors, &m, &n)?;
    let triangle = matrix::padded(cx, triangle, &m, &n)?;
    let packed = triangle.add(cx, vectors)?.write(cx, 0)?;
    let taus = reflectors.taus.each(cx, |cx, part| cx.squeeze(part, &[-2]))?;
    Ok(vec![packed, taus.write(cx, 1)?])
}
