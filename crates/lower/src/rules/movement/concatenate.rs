//! concatenate[dimension](x…) → Concat(x…)

use onnx::{ValueId, attrs};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let axis: i64 = cx.param("dimension")?;
    Ok(vec![cx.op("Concat", x, attrs! { axis: axis })?])
}
