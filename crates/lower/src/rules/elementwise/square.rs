//! square(x) → Mul(x, x)

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    Ok(vec![cx.op("Mul", &[x[0], x[0]], Attrs::new())?])
}
