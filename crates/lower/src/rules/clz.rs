//! clz(x) → the width less the number of ones, after the highest one is copied to all places below

use onnx::ValueId;

use super::population_count::wide;
use super::{Result, words};
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    let mut bits = wide(cx, x[0])?;
    let word = cx.dtype(bits);
    let mut distance = 1;
    while distance < dtype.bits() {
        let amount = words::word(cx, word, u64::from(distance))?;
        let below = words::right(cx, bits, amount)?;
        bits = words::or(cx, bits, below)?;
        distance *= 2;
    }
    let ones = words::ones(cx, bits)?;
    let width = words::word(cx, word, u64::from(dtype.bits()))?;
    let zeros = words::sub(cx, width, ones)?;
    Ok(vec![cx.cast(zeros, dtype)?])
}
