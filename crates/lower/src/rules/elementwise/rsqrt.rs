//! rsqrt(x) → Reciprocal(Sqrt(x))

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let root = cx.op("Sqrt", x, Attrs::new())?;
    Ok(vec![cx.op("Reciprocal", &[root], Attrs::new())?])
}
