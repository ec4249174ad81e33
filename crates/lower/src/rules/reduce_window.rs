//! reduce_window[jaxpr](x, start) → as reduce_window_sum and its like, when the function is Add, Mul,
//! Max or Min; the start value is combined into every window

use jaxpr::JaxprId;
use onnx::ValueId;

use super::Result;
use super::monoid::Monoid;
use super::window::Window;
use crate::{Context, RuleError};

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let jaxpr: JaxprId = cx.param("jaxpr")?;
    let [array, start] = x else {
        return Err(RuleError::unsupported("a window over several arrays at once"));
    };
    let Some(monoid) = Monoid::of(cx.jaxpr(jaxpr)) else {
        let reason = "a window that is reduced by something else than add, mul, max or min";
        return Err(RuleError::unsupported(reason));
    };
    let identity = monoid.identity(cx, cx.dtype(*array))?;
    let reduced = Window::read(cx)?.reduce(cx, *array, monoid)?;
    if *start == identity {
        return Ok(vec![reduced]);
    }
    Ok(vec![monoid.combine(cx, reduced, *start)?])
}
