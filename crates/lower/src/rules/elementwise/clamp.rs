//! clamp(low, x, high) → Min(Max(x, low), high)

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (low, x, high) = (x[0], x[1], x[2]);
    let raised = cx.op("Max", &[x, low], Attrs::new())?;
    Ok(vec![cx.op("Min", &[raised, high], Attrs::new())?])
}
