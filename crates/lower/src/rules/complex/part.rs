//! complex, real, imag, conj: making and taking apart

use onnx::Attrs;

use super::Result;
use crate::{Context, Parts};

pub(in crate::rules) fn complex(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    // One of them may be a scalar.
    let shape = cx.out(0).shape;
    Ok(vec![Parts::Complex(cx.expand(x[0].re(), &shape)?, cx.expand(x[1].re(), &shape)?)])
}

pub(in crate::rules) fn real(_: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![Parts::Real(x[0].re())])
}

pub(in crate::rules) fn imag(_: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![Parts::Real(x[0].im())])
}

/// The conjugate of a real operand is complex, too.
pub(in crate::rules) fn conj(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    match x[0] {
        Parts::Complex(re, im) => {
            let im = cx.op("Neg", &[im], Attrs::new())?;
            Ok(vec![Parts::Complex(re, im)])
        }
        Parts::Real(re) => {
            let shape = cx.shape(re).to_vec();
            let im = cx.full(cx.dtype(re), 0.0, &shape)?;
            Ok(vec![Parts::Complex(re, im)])
        }
    }
}
