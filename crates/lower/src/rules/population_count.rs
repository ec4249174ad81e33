//! population_count(x) → bits counted in parallel, with BitShift, BitwiseAnd and one Mul

use onnx::ValueId;
use tensor::DType;

use super::{Result, words};
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    let bits = wide(cx, x[0])?;
    let count = words::ones(cx, bits)?;
    Ok(vec![cx.cast(count, dtype)?])
}

/// The bits of `x` as words of 32 or 64 bits, with zeros in front.
pub(super) fn wide(cx: &mut Context<'_>, x: ValueId) -> Result<ValueId> {
    let narrow = words::unsigned(cx.dtype(x));
    let bits = cx.cast(x, narrow)?;
    let wide = if cx.dtype(bits) == DType::U64 { DType::U64 } else { DType::U32 };
    Ok(cx.cast(bits, wide)?)
}
