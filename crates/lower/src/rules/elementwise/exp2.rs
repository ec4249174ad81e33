//! exp2(x) → Pow(2, x)

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let two = cx.scalar_like(x[0], 2.0)?;
    Ok(vec![cx.op("Pow", &[two, x[0]], Attrs::new())?])
}
