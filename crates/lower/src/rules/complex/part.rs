//! complex, real, imag, conj: composition and decomposition

use crate::{Context, Parts, Result};

pub(in crate::rules) fn complex(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    // One of the operands may be a scalar.
    let shape = cx.out(0).shape;
    Ok(vec![Parts::Complex(cx.expand(x[0].re(), &shape)?, cx.expand(x[1].re(), &shape)?)])
}

pub(in crate::rules) fn real(_: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![Parts::Real(x[0].re())])
}

pub(in crate::rules) fn imag(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![Parts::Real(x[0].imaginary(cx)?)])
}

/// Returns the conjugate, which is complex even for a real operand.
pub(in crate::rules) fn conj(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    if x[0].is_complex() {
        return Ok(vec![x[0].conj(cx)?]);
    }
    Ok(vec![Parts::Complex(x[0].re(), x[0].imaginary(cx)?)])
}
