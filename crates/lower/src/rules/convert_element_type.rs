//! convert_element_type[new_dtype](x) → Cast(x)

use onnx::ValueId;
use tensor::DType;

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype: DType = cx.param("new_dtype")?;
    Ok(vec![cx.cast(x[0], dtype)?])
}
