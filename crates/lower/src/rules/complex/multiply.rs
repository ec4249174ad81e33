//! mul: (a + bi)(c + di) = (ac - bd) + (ad + bc)i

use onnx::{Attrs, ValueId};

use super::Result;
use crate::{Context, Parts};

pub(super) fn mul(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (re, im) = product(cx, (x[0].re(), x[0].im()), (x[1].re(), x[1].im()))?;
    Ok(vec![Parts::Complex(re, im)])
}

/// The product of two numbers.
pub(super) fn product(
    cx: &mut Context<'_>,
    (a, b): (ValueId, ValueId),
    (c, d): (ValueId, ValueId),
) -> Result<(ValueId, ValueId)> {
    let ac = cx.op("Mul", &[a, c], Attrs::new())?;
    let bd = cx.op("Mul", &[b, d], Attrs::new())?;
    let ad = cx.op("Mul", &[a, d], Attrs::new())?;
    let bc = cx.op("Mul", &[b, c], Attrs::new())?;
    let re = cx.op("Sub", &[ac, bd], Attrs::new())?;
    let im = cx.op("Add", &[ad, bc], Attrs::new())?;
    Ok((re, im))
}
