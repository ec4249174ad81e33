//! jit, custom_jvp_call, custom_vjp_call, remat, … → the called jaxpr, in place

use jaxpr::JaxprId;
use onnx::ValueId;

use super::Result;
use crate::Context;

#[track_caller]
fn inline(cx: &mut Context<'_>, x: &[ValueId], param: &str) -> Result {
    let id: JaxprId = cx.param(param)?;
    cx.inline(id, x)
}

pub(super) fn jaxpr(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    inline(cx, x, "jaxpr")
}

pub(super) fn call_jaxpr(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    inline(cx, x, "call_jaxpr")
}

pub(super) fn fun_jaxpr(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    inline(cx, x, "fun_jaxpr")
}
