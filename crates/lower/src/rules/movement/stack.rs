//! stack[axis](x…) → Concat(Unsqueeze(x)…), unstack[axis](x) → Squeeze(Split(x))…

use onnx::{ValueId, attrs};

use crate::{Context, Result};

pub(crate) fn stack(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let axis: i64 = cx.param("axis")?;
    let parts = x.iter().map(|part| cx.unsqueeze(*part, &[axis]));
    let parts = parts.collect::<onnx::Result<Vec<_>>>()?;
    Ok(vec![cx.op("Concat", &parts, attrs! { axis: axis })?])
}

pub(crate) fn unstack(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let axis: i64 = cx.param("axis")?;
    let count = cx.out_widths().count();
    if count == 0 {
        return Ok(Vec::new());
    }
    let attrs = attrs! { axis: axis, num_outputs: count as i64 };
    let parts = cx.op_many("Split", x, attrs, count)?;
    parts.into_iter().map(|part| Ok(cx.squeeze(part, &[axis])?)).collect()
}
