//! transpose[permutation](x) → Transpose(x)

use onnx::ValueId;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let permutation: Vec<usize> = cx.param("permutation")?;
    Ok(vec![cx.transpose(x[0], &permutation)?])
}
