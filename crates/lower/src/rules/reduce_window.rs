//! reduce_window[jaxpr](x, start) → as reduce_window_sum and its like, when the function is Add, Mul,
//! Max or Min; the start value is combined into every window

use jaxpr::JaxprId;

use super::Result;
use super::monoid::Monoid;
use super::window::Window;
use crate::{Context, Parts, RuleError};

pub(super) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let jaxpr: JaxprId = cx.param("jaxpr")?;
    let [array, start] = x else {
        return Err(RuleError::unsupported(
            "windows over several arrays at once are not supported",
        ));
    };
    let Some(monoid) = Monoid::of(cx.jaxpr(jaxpr)) else {
        let reason = "windows can only be reduced by add, mul, max or min";
        return Err(RuleError::unsupported(reason));
    };
    let identity = monoid.identity_like(cx, (*array).into())?;
    let reduced = Window::read(cx)?.reduce(cx, (*array).into(), monoid)?;
    if *start == identity.into() {
        return Ok(vec![reduced.into()]);
    }
    Ok(vec![monoid.combine(cx, reduced, (*start).into())?.into()])
}
