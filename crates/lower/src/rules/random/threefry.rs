//! threefry2x32(k₀, k₁, x₀, x₁), threefry4x32(k₀, …, x₀, …) → Scan over rounds of Add, BitShift and
//! BitwiseXor

use onnx::{Attrs, ValueId};
use tensor::Dim;

use super::hash_rounds;
use crate::formula::formulas;
use crate::{Context, Result, RuleError};

/// The constant that is combined with the other words to form the key's last one.
const PARITY: i128 = 0x1bd1_1bda;

/// The rotation amounts of eight rounds, for counters of two and of four words.
const TWO: [[u32; 1]; 8] = [[13], [15], [26], [6], [17], [29], [16], [24]];
const FOUR: [[u32; 2]; 8] =
    [[10, 26], [11, 21], [13, 27], [23, 5], [6, 20], [17, 11], [25, 10], [18, 20]];

/// Words of the key are added after every four rounds.
const ROUNDS: usize = 4;
const INJECTIONS: u32 = 5;

pub(crate) fn two(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let [k0, k1, x0, x1] = *x else {
        return Err(RuleError::Internal("threefry2x32 has four operands".to_owned()));
    };
    let shape = &cx.out(0).shape;
    Ok(hash(cx, [k0, k1], [x0, x1], shape)?.to_vec())
}

/// Hashes a counter of two words. Key and counter are broadcast to `shape`.
pub(crate) fn hash(
    cx: &mut Context<'_>,
    key: [ValueId; 2],
    counter: [ValueId; 2],
    shape: &[Dim],
) -> Result<[ValueId; 2]> {
    inject_and_repeat(cx, key, counter, shape, &schedule(&TWO), |cx, x, rotations| {
        for rotation in rotations {
            *x = mix(cx, *x, *rotation)?;
        }
        Ok(())
    })
}

pub(crate) fn four(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let [k0, k1, k2, k3, x0, x1, x2, x3] = *x else {
        return Err(RuleError::Internal("threefry4x32 has eight operands".to_owned()));
    };
    let (key, counter, shape) = ([k0, k1, k2, k3], [x0, x1, x2, x3], &cx.out(0).shape);
    let hashed =
        inject_and_repeat(cx, key, counter, shape, &schedule(&FOUR), |cx, x, rotations| {
            for pair in rotations.chunks(2) {
                [x[0], x[1]] = mix(cx, [x[0], x[1]], pair[0])?;
                [x[2], x[3]] = mix(cx, [x[2], x[3]], pair[1])?;
                // The next round mixes the other pairs.
                x.swap(1, 3);
            }
            Ok(())
        })?;
    Ok(hashed.to_vec())
}

/// Returns the columns of the schedule: the amount of every rotation between two injections, then
/// the amounts of the right shifts that complete them, and last, the number of the injection.
fn schedule<const N: usize>(rotations: &[[u32; N]; 8]) -> Vec<Vec<u32>> {
    let column = |i: usize| -> Vec<u32> {
        let rows = (0..INJECTIONS as usize).map(|n| ROUNDS * n + i / N);
        rows.map(|row| rotations[row % 8][i % N]).collect()
    };
    let mut columns: Vec<Vec<u32>> = (0..ROUNDS * N).map(column).collect();
    let opposite = |column: &Vec<u32>| column.iter().map(|amount| 32 - amount).collect();
    columns.extend(columns.clone().iter().map(opposite));
    columns.push((1..=INJECTIONS).collect());
    columns
}

/// Applies `rounds` to the counter five times. The words of the key are added before the first and
/// after each application, in turn.
fn inject_and_repeat<const N: usize>(
    cx: &mut Context<'_>,
    key: [ValueId; N],
    counter: [ValueId; N],
    shape: &[Dim],
    schedule: &[Vec<u32>],
    rounds: impl FnOnce(&mut Context<'_>, &mut [ValueId; N], &[Rotation]) -> Result<()>,
) -> Result<[ValueId; N]> {
    let [parity] = formulas(cx, key, |key| {
        [key.iter().fold(key[0].integer(PARITY), |parity, word| parity ^ *word)]
    })?;
    let mut counter = counter;
    for (word, key) in counter.iter_mut().zip(key) {
        *word = cx.op("Add", &[*word, key], Attrs::new())?;
    }
    let counter = hash_rounds::broadcast(cx, counter, shape)?;
    let key_shape = cx.shape(parity).to_vec();
    let key = hash_rounds::broadcast(cx, key, &key_shape)?;

    let state = [&counter[..], &key[1..], &[parity], &key[..1]].concat();
    let state = hash_rounds::repeat(cx, &state, schedule, |cx, state, words| {
        let (mut x, key) = (counter, &state[N..]);
        x.copy_from_slice(&state[..N]);
        let (number, amounts) = words.split_last().ok_or_else(lost)?;
        let (left, right) = amounts.split_at(amounts.len() / 2);
        let rotations: Vec<Rotation> =
            left.iter().zip(right).map(|(left, right)| [*left, *right]).collect();
        rounds(cx, &mut x, &rotations)?;
        let last = cx.op("Add", &[key[N - 1], *number], Attrs::new())?;
        for (word, key) in x.iter_mut().zip(key[..N - 1].iter().chain([&last])) {
            *word = cx.op("Add", &[*word, *key], Attrs::new())?;
        }
        Ok([&x[..], &key[1..], &key[..1]].concat())
    })?;
    let mut hashed = counter;
    hashed.copy_from_slice(&state[..N]);
    Ok(hashed)
}

fn lost() -> RuleError {
    RuleError::Internal("a schedule without columns".to_owned())
}

/// A left shift and the right shift that completes it.
type Rotation = [ValueId; 2];

/// Adds the words, rotates the second one, and combines both.
fn mix(
    cx: &mut Context<'_>,
    [x0, x1]: [ValueId; 2],
    [left, right]: Rotation,
) -> onnx::Result<[ValueId; 2]> {
    formulas(cx, [x0, x1, left, right], |[x0, x1, left, right]| {
        let sum = x0 + x1;
        let rotated = (x1 << left) | (x1 >> right);
        [sum, sum ^ rotated]
    })
}
