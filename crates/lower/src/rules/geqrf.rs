//! geqrf(a) → Loop over columns, a Householder reflector each; packed as LAPACK does

use onnx::ValueId;

use super::entries::Entries;
use super::{Result, matrix, reflectors};
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let a = Entries::read(cx, x[0])?;
    let taus = cx.out(1);
    if matrix::is_empty(cx, a) {
        return Ok(vec![x[0], cx.full(taus.dtype, 0.0, &taus.shape)?]);
    }
    let (m, n) = matrix::sides(cx, a);
    let (reflectors, triangle) = reflectors::factor(cx, a)?;
    let vectors = matrix::lower(cx, reflectors.vectors, -1)?;
    let vectors = matrix::padded(cx, vectors, &m, &n)?;
    let triangle = matrix::padded(cx, triangle, &m, &n)?;
    let packed = triangle.add(cx, vectors)?.write(cx, 0)?;
    let taus = reflectors.taus.each(cx, |cx, part| Ok(cx.squeeze(part, &[-2])?))?;
    Ok(vec![packed, taus.write(cx, 1)?])
}
