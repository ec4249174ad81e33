//! round[to nearest even](x) → Round(x); round[away from zero](x) → Floor(|x|), one more where the
//! fraction is a half or larger, with the sign of x

use std::sync::Arc;

use onnx::{Attrs, ValueId};

use crate::rules::Result;
use crate::{Context, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let method: Arc<str> = cx.param("rounding_method")?;
    match &*method {
        "TO_NEAREST_EVEN" => Ok(vec![cx.op("Round", x, Attrs::new())?]),
        "AWAY_FROM_ZERO" => away_from_zero(cx, x[0]),
        other => {
            Err(RuleError::unsupported(format!("the rounding method {other} is not supported")))
        }
    }
}

fn away_from_zero(cx: &mut Context<'_>, x: ValueId) -> Result {
    let half = cx.scalar_like(x, 0.5)?;
    let one = cx.scalar_like(x, 1.0)?;
    let size = cx.op("Abs", &[x], Attrs::new())?;
    let floor = cx.op("Floor", &[size], Attrs::new())?;
    let fraction = cx.op("Sub", &[size, floor], Attrs::new())?;
    let up = cx.op("GreaterOrEqual", &[fraction, half], Attrs::new())?;
    let next = cx.op("Add", &[floor, one], Attrs::new())?;
    let rounded = cx.op("Where", &[up, next, floor], Attrs::new())?;
    let sign = cx.op("Sign", &[x], Attrs::new())?;
    let signed = cx.op("Mul", &[sign, rounded], Attrs::new())?;
    // Infinity minus infinity is not a fraction, so infinite values are their own result.
    let infinite = cx.op("IsInf", &[x], Attrs::new())?;
    Ok(vec![cx.op("Where", &[infinite, x, signed], Attrs::new())?])
}
