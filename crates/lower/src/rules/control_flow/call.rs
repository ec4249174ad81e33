//! jit, custom_jvp_call, custom_vjp_call, remat, … → the called jaxpr, in place

use jaxpr::JaxprId;
use onnx::ValueId;

use crate::Context;
use crate::rules::Result;

#[track_caller]
fn inline(cx: &mut Context<'_>, x: &[ValueId], param: &str) -> Result {
    let id: JaxprId = cx.param(param)?;
    cx.inline(id, x)
}

pub(crate) fn jaxpr(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    inline(cx, x, "jaxpr")
}

pub(crate) fn call_jaxpr(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    inline(cx, x, "call_jaxpr")
}

pub(crate) fn fun_jaxpr(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    inline(cx, x, "fun_jaxpr")
}
