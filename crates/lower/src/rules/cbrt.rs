//! cbrt(x) → Sign(x) · Pow(Abs(x), 1/3), with one Newton step: a third is no float.

use onnx::{Attrs, ValueId};

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let third = cx.scalar_like(x[0], 1.0 / 3.0)?;
    let two = cx.scalar_like(x[0], 2.0)?;
    let three = cx.scalar_like(x[0], 3.0)?;
    let size = cx.op("Abs", x, Attrs::new())?;
    let guess = cx.op("Pow", &[size, third], Attrs::new())?;
    let square = cx.op("Mul", &[guess, guess], Attrs::new())?;
    let quotient = cx.op("Div", &[size, square], Attrs::new())?;
    let double = cx.op("Mul", &[guess, two], Attrs::new())?;
    let sum = cx.op("Add", &[double, quotient], Attrs::new())?;
    let refined = cx.op("Div", &[sum, three], Attrs::new())?;
    // The step divides by zero at zero and infinity by infinity: there the guess is exact.
    let zero = cx.scalar_like(x[0], 0.0)?;
    let infinity = cx.scalar_like(x[0], f64::INFINITY)?;
    let at_zero = cx.op("Equal", &[size, zero], Attrs::new())?;
    let at_infinity = cx.op("Equal", &[size, infinity], Attrs::new())?;
    let exact = cx.op("Or", &[at_zero, at_infinity], Attrs::new())?;
    let root = cx.op("Where", &[exact, guess, refined], Attrs::new())?;
    let sign = cx.op("Sign", x, Attrs::new())?;
    Ok(vec![cx.op("Mul", &[sign, root], Attrs::new())?])
}
