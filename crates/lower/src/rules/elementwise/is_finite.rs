//! is_finite(x) → Not(Or(IsInf(x), IsNaN(x)))

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let infinite = cx.op("IsInf", x, Attrs::new())?;
    let nan = cx.op("IsNaN", x, Attrs::new())?;
    let either = cx.op("Or", &[infinite, nan], Attrs::new())?;
    Ok(vec![cx.op("Not", &[either], Attrs::new())?])
}
