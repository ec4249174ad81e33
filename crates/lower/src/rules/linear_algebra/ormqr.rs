//! ormqr[left, transpose](a, taus, c) → Loop over the reflectors, each applied to c

use super::matrix;
use super::reflectors::{Order, Reflectors};
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (left, transpose): (bool, bool) = (cx.param("left")?, cx.param("transpose")?);
    let (a, taus) = (Parts::read(cx, x[0])?, Parts::read(cx, x[1])?);
    let c = Parts::read(cx, x[2])?;
    if matrix::is_empty(cx, c) || matrix::is_empty(cx, taus) {
        return Ok(vec![x[2]]);
    }
    let order = if left == transpose { Order::FirstToLast } else { Order::LastToFirst };
    let reflectors = Reflectors::unpack(cx, a, taus)?;
    let result = reflectors.apply(cx, c, order, left, transpose)?;
    Ok(vec![result.write(cx, 0)?])
}
