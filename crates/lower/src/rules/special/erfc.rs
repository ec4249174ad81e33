//! erfc(x) → 1 - Erf(x), which legalisation expands where small results need their digits

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let one = cx.scalar_like(x[0], 1.0)?;
    let erf = cx.op("Erf", x, Attrs::new())?;
    Ok(vec![cx.op("Sub", &[one, erf], Attrs::new())?])
}
