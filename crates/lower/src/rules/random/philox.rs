//! philox2x32(k, x₀, x₁), philox4x32(k₀, k₁, x₀, …) → Scan over rounds of Mul in 64 bits and
//! BitwiseXor

use onnx::ValueId;
use tensor::{DType, Dim};

use super::hash_rounds;
use crate::formula::{Num, formulas};
use crate::rules::bits::unsigned_words::halves;
use crate::{Context, Result, RuleError};

const ROUNDS: u32 = 10;

/// The multipliers of the counter's words.
const TWO: u64 = 0xd256_d193;
const FOUR: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];

/// The increments of the key's words after every round.
const STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

pub(crate) fn two(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let [key, x0, x1] = *x else {
        return Err(RuleError::Internal("philox2x32 has three operands".to_owned()));
    };
    let shape = &cx.out(0).shape;
    let state = hash_rounds::broadcast(cx, [x0, x1], shape)?;
    hash_rounds::repeat(cx, &state, &[steps(0)], |cx, x, steps| {
        let operands = [key, steps[0], x[0], x[1]];
        let state = formulas(cx, operands, |[key, step, x0, x1]| {
            let key = key + step;
            let [low, high] = product(x0, TWO);
            [high ^ x1 ^ key, low]
        })?;
        Ok(state.to_vec())
    })
}

pub(crate) fn four(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let [k0, k1, x0, x1, x2, x3] = *x else {
        return Err(RuleError::Internal("philox4x32 has six operands".to_owned()));
    };
    let shape = &cx.out(0).shape;
    hash(cx, [k0, k1], [x0, x1, x2, x3], shape)
}

/// Hashes a counter of four words. Key and counter are broadcast to `shape`.
pub(crate) fn hash(
    cx: &mut Context<'_>,
    key: [ValueId; 2],
    counter: [ValueId; 4],
    shape: &[Dim],
) -> Result {
    let state = hash_rounds::broadcast(cx, counter, shape)?;
    hash_rounds::repeat(cx, &state, &[steps(0), steps(1)], |cx, x, steps| {
        let operands = [key[0], steps[0], key[1], steps[1], x[0], x[1], x[2], x[3]];
        let state = formulas(cx, operands, |[k0, s0, k1, s1, x0, x1, x2, x3]| {
            let (k0, k1) = (k0 + s0, k1 + s1);
            let ([low0, high0], [low1, high1]) = (product(x0, FOUR[0]), product(x2, FOUR[1]));
            [high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0]
        })?;
        Ok(state.to_vec())
    })
}

/// Returns the difference of a word of the key from its first value, for every round.
fn steps(word: usize) -> Vec<u32> {
    (0..ROUNDS).map(|round| STEPS[word].wrapping_mul(round)).collect()
}

/// Returns the low and the high word of a product.
fn product(x: Num<'_>, factor: u64) -> [Num<'_>; 2] {
    halves(x.cast(DType::U64) * factor)
}
