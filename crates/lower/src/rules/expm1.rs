//! expm1(x) → (Exp(x) - 1) · x / Log(Exp(x)), which keeps the digits that `Exp(x) - 1` loses near 0.

use onnx::{Attrs, ValueId};

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let x = x[0];
    let one = cx.scalar_like(x, 1.0)?;
    let half = cx.scalar_like(x, 0.5)?;
    let power = cx.op("Exp", &[x], Attrs::new())?;
    let plain = cx.op("Sub", &[power, one], Attrs::new())?;
    let log = cx.op("Log", &[power], Attrs::new())?;
    let scaled = cx.op("Mul", &[plain, x], Attrs::new())?;
    let exact = cx.op("Div", &[scaled, log], Attrs::new())?;
    // Where Exp(x) rounds to 1 the quotient is 0/0, and x itself is the answer.
    let rounds = cx.op("Equal", &[power, one], Attrs::new())?;
    let small = cx.op("Where", &[rounds, x, exact], Attrs::new())?;
    let size = cx.op("Abs", &[x], Attrs::new())?;
    let near = cx.op("Less", &[size, half], Attrs::new())?;
    Ok(vec![cx.op("Where", &[near, small, plain], Attrs::new())?])
}
