//! dim_as_value[dim]() → the size of an axis, from the inputs' shapes

use onnx::ValueId;
use tensor::Dim;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, _: &[ValueId]) -> Result {
    let dim: Dim = cx.param("dim")?;
    let size = cx.size(&dim)?;
    let dtype = cx.out(0).dtype;
    Ok(vec![cx.cast(size, dtype)?])
}
