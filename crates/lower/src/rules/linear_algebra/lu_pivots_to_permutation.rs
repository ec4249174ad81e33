//! lu_pivots_to_permutation(pivots) → Loop that exchanges two positions per iteration

use onnx::ValueId;
use tensor::{DType, Dim};

use super::lu;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let size: Dim = cx.param("permutation_size")?;
    let pivots = cx.cast(x[0], DType::I64)?;
    let order = lu::permutation(cx, pivots, &size)?;
    let dtype = cx.out(0).dtype;
    Ok(vec![cx.cast(order, dtype)?])
}
