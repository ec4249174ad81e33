//! population_count(x) → bits counted in parallel, with BitShift, BitwiseAnd and one Mul

use onnx::ValueId;
use tensor::DType;

use super::unsigned_words;
use crate::Context;
use crate::rules::Result;

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    let bits = wide(cx, x[0])?;
    let count = unsigned_words::ones(cx, bits)?;
    Ok(vec![cx.cast(count, dtype)?])
}

/// The bits of `x` as words of 32 or 64 bits, with zeros in front.
pub(crate) fn wide(cx: &mut Context<'_>, x: ValueId) -> Result<ValueId> {
    let narrow = unsigned_words::unsigned(cx.dtype(x));
    let bits = cx.cast(x, narrow)?;
    let wide = if cx.dtype(bits) == DType::U64 { DType::U64 } else { DType::U32 };
    Ok(cx.cast(bits, wide)?)
}
