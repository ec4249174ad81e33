//! hessenberg(a) → Loop over columns, with a Householder reflector for each, applied from both
//! sides; packed as in LAPACK

use tensor::Dim;

use super::matrix;
use super::reflectors::reduce_column;
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::{Context, Parts, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let a = Parts::read(cx, x[0])?;
    let (n, _) = matrix::sides(cx, a);
    if n == Dim::Known(0) {
        // JAX expects n - 1 factors, which would be -1.
        return Err(RuleError::unsupported("matrices without rows are not supported"));
    }
    if matrix::is_empty(cx, a) || n == Dim::Known(1) {
        return Ok(vec![x[0], Parts::zeros(cx, 1, a)?]);
    }
    let places = matrix::places(cx, &n)?;
    let steps = n.clone() - Dim::Known(1);
    let done = repeat(cx, &steps, &[a], |cx, at, carry| {
        let step = reduce_column(cx, carry[0], places, at)?;
        Ok(Iteration { carry: vec![step.rest], stack: vec![step.packed, step.reflector.tau] })
    })?;
    let columns = matrix::from_columns(cx, done.stack[0])?;
    let last = done.carry[0].slice(cx, -1, &steps, &n)?;
    let packed = columns.concat(cx, -1, last)?;
    let taus = matrix::from_scalars(cx, done.stack[1])?;
    Ok(vec![packed.write(cx, 0)?, taus.write(cx, 1)?])
}
