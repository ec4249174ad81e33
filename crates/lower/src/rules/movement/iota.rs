//! iota[dtype, shape, dimension]() → Expand(Reshape(Range(0, n)))

use onnx::ValueId;
use tensor::Dim;

use crate::rules::indexing::indices;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, _: &[ValueId]) -> Result {
    let axis: usize = cx.param("dimension")?;
    let (dtype, shape) = (cx.out(0).dtype, cx.out(0).shape.clone());
    // The range is computed in integers and then cast: a narrow float cannot count far, but it can
    // round.
    let range = indices::range(cx, &shape[axis])?;
    let range = cx.cast(range, dtype)?;
    let mut aligned = vec![Dim::Known(1); shape.len() - axis];
    aligned[0] = shape[axis].clone();
    let aligned = cx.reshape(range, &aligned)?;
    Ok(vec![cx.expand(aligned, &shape)?])
}
