//! log1p(x) → Log(1 + x) · x / ((1 + x) - 1), which keeps the digits that `1 + x` loses near 0.

use onnx::{Attrs, ValueId};

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let x = x[0];
    let one = cx.scalar_like(x, 1.0)?;
    let half = cx.scalar_like(x, 0.5)?;
    let sum = cx.op("Add", &[x, one], Attrs::new())?;
    let plain = cx.op("Log", &[sum], Attrs::new())?;
    let kept = cx.op("Sub", &[sum, one], Attrs::new())?;
    let ratio = cx.op("Div", &[x, kept], Attrs::new())?;
    let exact = cx.op("Mul", &[plain, ratio], Attrs::new())?;
    // Where 1 + x rounds to 1 the ratio is x/0, and x itself is the answer.
    let rounds = cx.op("Equal", &[sum, one], Attrs::new())?;
    let small = cx.op("Where", &[rounds, x, exact], Attrs::new())?;
    let size = cx.op("Abs", &[x], Attrs::new())?;
    let near = cx.op("Less", &[size, half], Attrs::new())?;
    Ok(vec![cx.op("Where", &[near, small, plain], Attrs::new())?])
}
