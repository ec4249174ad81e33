//! rev[dimensions](x) → Slice(x) with steps of -1

use onnx::ValueId;
use tensor::Dim;

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let axes: Vec<i64> = cx.param("dimensions")?;
    let count = axes.len();
    let starts = vec![Dim::Known(-1); count];
    // The end is exclusive; only the smallest integer lies before the first element for any size.
    let ends = vec![Dim::Known(i64::MIN); count];
    Ok(vec![cx.slice(x[0], &axes, &starts, &ends, &vec![-1; count])?])
}
