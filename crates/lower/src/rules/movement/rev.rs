//! rev[dimensions](x) → Slice(x) with steps of -1

use onnx::ValueId;
use tensor::Dim;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let axes: Vec<i64> = cx.param("dimensions")?;
    Ok(vec![reverse(cx, x[0], &axes)?])
}

/// Reverses the order of elements along `axes`.
#[track_caller]
pub(crate) fn reverse(cx: &mut Context<'_>, value: ValueId, axes: &[i64]) -> Result<ValueId> {
    let count = axes.len();
    let starts = vec![Dim::Known(-1); count];
    // The end is exclusive; only the smallest integer is before the first element for any size.
    let ends = vec![Dim::Known(i64::MIN); count];
    cx.slice(value, axes, &starts, &ends, &vec![-1; count])
}
