//! broadcast_in_dim[shape, broadcast_dimensions](x) → Expand(Reshape(x))

use onnx::ValueId;
use tensor::Dim;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let axes: Vec<usize> = cx.param("broadcast_dimensions")?;
    let target = cx.out(0).shape.clone();
    let mut aligned = vec![Dim::Known(1); target.len()];
    for (from, to) in axes.iter().enumerate() {
        aligned[*to] = cx.shape(x[0])[from].clone();
    }
    // Broadcasting adds leading axes of size one anyway.
    let leading = axes.first().copied().unwrap_or(target.len());
    let aligned = cx.reshape(x[0], &aligned[leading..])?;
    Ok(vec![cx.expand(aligned, &target)?])
}
