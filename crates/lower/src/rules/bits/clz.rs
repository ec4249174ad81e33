//! clz(x) → the width less the number of ones, after the highest one is copied to all places below

use onnx::ValueId;

use super::population_count::wide;
use super::unsigned_words;
use crate::Context;
use crate::rules::Result;

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    let mut bits = wide(cx, x[0])?;
    let word = cx.dtype(bits);
    let mut distance = 1;
    while distance < dtype.bits() {
        let amount = unsigned_words::word(cx, word, u64::from(distance))?;
        let below = unsigned_words::right(cx, bits, amount)?;
        bits = unsigned_words::or(cx, bits, below)?;
        distance *= 2;
    }
    let ones = unsigned_words::ones(cx, bits)?;
    let width = unsigned_words::word(cx, word, u64::from(dtype.bits()))?;
    let zeros = unsigned_words::sub(cx, width, ones)?;
    Ok(vec![cx.cast(zeros, dtype)?])
}
