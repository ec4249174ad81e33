//! and, or, xor, not → the logical operator on booleans, the bitwise one on integers

use onnx::{Attrs, ValueId};
use tensor::DType;

use crate::Context;
use crate::rules::Result;

#[track_caller]
fn choose(
    cx: &mut Context<'_>,
    x: &[ValueId],
    logical: &'static str,
    bitwise: &'static str,
) -> Result {
    let op = if cx.dtype(x[0]) == DType::Bool { logical } else { bitwise };
    Ok(vec![cx.op(op, x, Attrs::new())?])
}

pub(crate) fn and(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    choose(cx, x, "And", "BitwiseAnd")
}

pub(crate) fn or(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    choose(cx, x, "Or", "BitwiseOr")
}

pub(crate) fn xor(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    choose(cx, x, "Xor", "BitwiseXor")
}

pub(crate) fn not(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    choose(cx, x, "Not", "BitwiseNot")
}
