//! transpose[permutation](x) → Transpose(x)

use onnx::ValueId;

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let permutation: Vec<usize> = cx.param("permutation")?;
    Ok(vec![cx.transpose(x[0], &permutation)?])
}
