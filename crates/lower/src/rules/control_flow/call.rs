//! jit, custom_jvp_call, custom_vjp_call, remat, … → the called jaxpr, in place

use jaxpr::JaxprId;
use onnx::ValueId;

use crate::Context;
use crate::rules::Result;

/// The results of the jaxpr in the parameter `param`.
pub(in crate::rules) fn inline(cx: &mut Context<'_>, x: &[ValueId], param: &str) -> Result {
    let id: JaxprId = cx.param(param)?;
    cx.inline(id, x)
}
