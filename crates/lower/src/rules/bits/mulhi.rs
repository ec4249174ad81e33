//! mulhi(x, y) → the upper half of a product: Mul in twice the width, or of the halves of 64 bits

use onnx::{Attrs, ValueId};
use tensor::{DType, Kind};

use super::unsigned_words::{add, halves, mul, right, sub, unsigned, word};
use crate::Context;
use crate::rules::Result;

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    if dtype.bits() == 64 {
        return long(cx, x[0], x[1]);
    }
    let wide = if dtype.kind() == Kind::Signed { DType::I64 } else { DType::U64 };
    let (a, b) = (cx.cast(x[0], wide)?, cx.cast(x[1], wide)?);
    let product = mul(cx, a, b)?;
    // The sign is a bit like all others: what is above the upper half is cut off.
    let bits = cx.cast(product, DType::U64)?;
    let amount = word(cx, DType::U64, u64::from(dtype.bits()))?;
    let upper = right(cx, bits, amount)?;
    let upper = cx.cast(upper, unsigned(dtype))?;
    Ok(vec![cx.cast(upper, dtype)?])
}

/// Products of halves, added up from the lowest to the highest word.
fn long(cx: &mut Context<'_>, x: ValueId, y: ValueId) -> Result {
    let dtype = cx.dtype(x);
    let (a, b) = (cx.cast(x, DType::U64)?, cx.cast(y, DType::U64)?);
    let [a, b] = [a, b].map(|word| halves(cx, word));
    let ([a_low, a_high], [b_low, b_high]) = (a?, b?);
    let mut wide = Vec::with_capacity(4);
    for half in [a_low, a_high, b_low, b_high] {
        wide.push(cx.cast(half, DType::U64)?);
    }
    let amount = word(cx, DType::U64, 32)?;
    let lowest = mul(cx, wide[0], wide[2])?;
    let carried = right(cx, lowest, amount)?;
    let middle = mul(cx, wide[1], wide[2])?;
    let middle = add(cx, middle, carried)?;
    let [low, high] = halves(cx, middle)?;
    let (low, high) = (cx.cast(low, DType::U64)?, cx.cast(high, DType::U64)?);
    let other = mul(cx, wide[0], wide[3])?;
    let other = add(cx, other, low)?;
    let carried = right(cx, other, amount)?;
    let upper = mul(cx, wide[1], wide[3])?;
    let upper = add(cx, upper, high)?;
    let upper = add(cx, upper, carried)?;
    let upper = cx.cast(upper, dtype)?;
    if dtype.kind() != Kind::Signed {
        return Ok(vec![upper]);
    }
    // As an unsigned number, a negative factor is too large by 2⁶⁴.
    let zero = cx.scalar(dtype, 0.0)?;
    let mut result = upper;
    for (factor, other) in [(x, y), (y, x)] {
        let negative = cx.op("Less", &[factor, zero], Attrs::new())?;
        let excess = cx.op("Where", &[negative, other, zero], Attrs::new())?;
        result = sub(cx, result, excess)?;
    }
    Ok(vec![result])
}
