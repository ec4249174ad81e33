//! householder_product(a, taus) → Loop over the reflectors, last to first, applied to the identity

use super::matrix;
use super::reflectors::Reflectors;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (a, taus) = (Parts::read(cx, x[0])?, Parts::read(cx, x[1])?);
    if matrix::is_empty(cx, a) {
        return Ok(vec![x[0]]);
    }
    let (m, n) = matrix::sides(cx, a);
    let product = if matrix::is_empty(cx, taus) {
        matrix::identity(cx, &m, &n, a)?
    } else {
        Reflectors::unpack(cx, a, taus)?.product(cx, &n)?
    };
    Ok(vec![product.write(cx, 0)?])
}
