//! dot_general, conv_general_dilated: bilinear operations, applied to the parts of both operands

use onnx::{Attrs, ValueId};

use crate::rules::linear_algebra::dot_general;
use crate::rules::windows::conv_general_dilated;
use crate::{Context, Parts, Result};

/// Computes (a + bi)(c + di) = (ac - bd) + (ad + bc)i, where each operand and the result may be
/// real.
pub(in crate::rules) fn dot(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (left, right) = (x[0], x[1]);
    let mut re = product(cx, left.re(), right.re())?;
    if let (Some(b), Some(d)) = (left.im(), right.im()) {
        let bd = product(cx, b, d)?;
        re = cx.op("Sub", &[re, bd], Attrs::new())?;
    }
    if !cx.is_complex() {
        return Ok(vec![Parts::Real(re)]);
    }
    let im = match (left.im(), right.im()) {
        (None, None) => {
            let ty = cx.out(0);
            cx.full(ty.dtype, 0.0, &ty.shape)?
        }
        (Some(b), None) => product(cx, b, right.re())?,
        (None, Some(d)) => product(cx, left.re(), d)?,
        (Some(b), Some(d)) => {
            let (ad, bc) = (product(cx, left.re(), d)?, product(cx, b, right.re())?);
            cx.op("Add", &[ad, bc], Attrs::new())?
        }
    };
    Ok(vec![Parts::Complex(re, im)])
}

fn product(cx: &mut Context<'_>, a: ValueId, b: ValueId) -> Result<ValueId> {
    Ok(dot_general::lower(cx, &[a, b])?[0])
}

/// Uses three convolutions like JAX: with p = (a + b)c, q = a(d - c) and r = b(c + d), the product
/// is (p - r) + (p + q)i.
pub(in crate::rules) fn conv(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (a, b) = (x[0].re(), x[0].imaginary(cx)?);
    let (c, d) = (x[1].re(), x[1].imaginary(cx)?);
    let both = cx.op("Add", &[a, b], Attrs::new())?;
    let difference = cx.op("Sub", &[d, c], Attrs::new())?;
    let sum = cx.op("Add", &[c, d], Attrs::new())?;
    let p = conv_general_dilated::lower(cx, &[both, c])?[0];
    let q = conv_general_dilated::lower(cx, &[a, difference])?[0];
    let r = conv_general_dilated::lower(cx, &[b, sum])?[0];
    let re = cx.op("Sub", &[p, r], Attrs::new())?;
    let im = cx.op("Add", &[p, q], Attrs::new())?;
    Ok(vec![Parts::Complex(re, im)])
}
