//! max, min → Max, Min; on booleans they are Or, And

use onnx::{Attrs, ValueId};
use tensor::DType;

use crate::Context;
use crate::rules::Result;

#[track_caller]
fn choose(
    cx: &mut Context<'_>,
    x: &[ValueId],
    numeric: &'static str,
    logical: &'static str,
) -> Result {
    let op = if cx.dtype(x[0]) == DType::Bool { logical } else { numeric };
    Ok(vec![cx.op(op, x, Attrs::new())?])
}

pub(crate) fn max(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    choose(cx, x, "Max", "Or")
}

pub(crate) fn min(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    choose(cx, x, "Min", "And")
}
