//! round[to nearest even](x) → Round(x); round[away from zero](x) → Floor(|x|), plus one where the
//! fraction is at least a half, with the sign of x

use std::sync::Arc;

use onnx::{Attrs, ValueId};

use crate::formula::formulas;
use crate::{Context, Result, RuleError};

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
    let [rounded] = formulas(cx, [x], |[x]| {
        let size = x.abs();
        let floor = size.floor();
        let up = (size - floor).at_least(0.5);
        let rounded = up.select(floor + 1.0, floor);
        let rounded = x.sign() * rounded;
        // Infinity minus infinity is not a fraction, so infinite values are returned unchanged.
        [x.is_inf().select(x, rounded)]
    })?;
    Ok(vec![rounded])
}
