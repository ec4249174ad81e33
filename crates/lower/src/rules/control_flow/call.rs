//! jit, custom_jvp_call, custom_vjp_call, remat, … → the called jaxpr, in place

use jaxpr::JaxprId;
use onnx::ValueId;

use crate::{Context, Result};

/// Inlines the jaxpr in the parameter that has one of the names `params`.
pub(in crate::rules) fn inline(cx: &mut Context<'_>, x: &[ValueId], params: &[&str]) -> Result {
    let given = params.iter().find(|name| cx.has_param(name));
    let name = given.or(params.first()).copied().unwrap_or_default();
    let id: JaxprId = cx.param(name)?;
    cx.inline(id, x)
}
