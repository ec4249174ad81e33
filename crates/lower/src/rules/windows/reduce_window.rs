//! reduce_window[jaxpr](x, start) → like reduce_window_sum and similar primitives, if the function
//! is Add, Mul, Max or Min; the start value is combined into every window

use jaxpr::JaxprId;

use super::window::Window;
use crate::rules::reduction::monoid::Monoid;
use crate::{Context, Parts, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let jaxpr: JaxprId = cx.param("jaxpr")?;
    let (Some(monoid), [array, start]) = (Monoid::of(cx.jaxpr(jaxpr)), x) else {
        return Err(RuleError::Internal("a reduction that was not expanded".to_owned()));
    };
    let identity = monoid.identity_like(cx, *array)?;
    let reduced = Window::read(&cx.eqn().params)?.reduce(cx, *array, monoid)?;
    if *start == identity {
        return Ok(vec![reduced]);
    }
    Ok(vec![monoid.combine(cx, reduced, *start)?])
}
