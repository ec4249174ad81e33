//! squeeze[dimensions](x) → Squeeze(x)

use onnx::ValueId;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let axes: Vec<i64> = cx.param("dimensions")?;
    Ok(vec![cx.squeeze(x[0], &axes)?])
}
