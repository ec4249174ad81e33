//! convert_element_type, bitcast_convert_type, iota: conversion and creation of complex numbers

use crate::rules::elementwise::convert_element_type;
use crate::rules::movement::iota;
use crate::{Context, Parts, Result, RuleError};

/// Converts real to complex numbers with a zero imaginary part, and complex to real ones by
/// dropping it.
pub(in crate::rules) fn convert(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    if !cx.is_complex() {
        let real = convert_element_type::lower(cx, &[x[0].re()])?;
        return Ok(real.into_iter().map(Parts::Real).collect());
    }
    let dtype = cx.out(0).dtype;
    let re = cx.cast(x[0].re(), dtype)?;
    let im = match x[0] {
        Parts::Complex(_, im) => cx.cast(im, dtype)?,
        Parts::Real(_) => zeros(cx)?,
    };
    Ok(vec![Parts::Complex(re, im)])
}

/// Handles only the identity, because JAX does not reinterpret the bits of complex numbers.
pub(in crate::rules) fn bitcast(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    match x[0] {
        Parts::Complex(re, _) if cx.is_complex() && cx.dtype(re) == cx.out(0).dtype => {
            Ok(vec![x[0]])
        }
        _ => Err(RuleError::unsupported(
            "the bits of complex numbers cannot be reinterpreted as another type",
        )),
    }
}

pub(in crate::rules) fn iota(cx: &mut Context<'_>, _: &[Parts]) -> Result<Vec<Parts>> {
    let re = iota::lower(cx, &[])?[0];
    Ok(vec![Parts::Complex(re, zeros(cx)?)])
}

/// Returns the imaginary part of a real result: zeros.
#[track_caller]
fn zeros(cx: &mut Context<'_>) -> Result<onnx::ValueId> {
    let ty = cx.out(0);
    cx.full(ty.dtype, 0.0, &ty.shape)
}
