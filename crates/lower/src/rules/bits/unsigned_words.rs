//! Arithmetic on unsigned integers as words of bits.

use onnx::{Attrs, ValueId, attrs};
use tensor::DType;

use crate::Context;
use crate::rules::Result;

/// The unsigned type of the same width.
pub(crate) fn unsigned(dtype: DType) -> DType {
    match dtype.bits() {
        _ if dtype == DType::Bool => dtype,
        2 => DType::U2,
        4 => DType::U4,
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        64 => DType::U64,
        _ => dtype,
    }
}

/// The signed type of the same width.
pub(crate) fn signed(dtype: DType) -> DType {
    match dtype {
        DType::U2 => DType::I2,
        DType::U4 => DType::I4,
        DType::U8 => DType::I8,
        DType::U16 => DType::I16,
        DType::U32 => DType::I32,
        DType::U64 => DType::I64,
        other => other,
    }
}

/// A constant word.
pub(crate) fn word(cx: &mut Context<'_>, dtype: DType, value: u64) -> Result<ValueId> {
    Ok(cx.int(dtype, i128::from(value))?)
}

macro_rules! binary {
    ($($name:ident => $op:literal;)*) => {
        $(#[track_caller]
        pub(crate) fn $name(cx: &mut Context<'_>, a: ValueId, b: ValueId) -> Result<ValueId> {
            Ok(cx.op($op, &[a, b], Attrs::new())?)
        })*
    };
}

binary! {
    add => "Add";
    sub => "Sub";
    mul => "Mul";
    and => "BitwiseAnd";
    or => "BitwiseOr";
    xor => "BitwiseXor";
}

/// `x` shifted to the left by fewer bits than it has.
#[track_caller]
pub(crate) fn left(cx: &mut Context<'_>, x: ValueId, amount: ValueId) -> Result<ValueId> {
    Ok(cx.op("BitShift", &[x, amount], attrs! { direction: "LEFT" })?)
}

/// `x` shifted to the right by fewer bits than it has.
#[track_caller]
pub(crate) fn right(cx: &mut Context<'_>, x: ValueId, amount: ValueId) -> Result<ValueId> {
    Ok(cx.op("BitShift", &[x, amount], attrs! { direction: "RIGHT" })?)
}

/// The low and the high half of 64-bit words.
#[track_caller]
pub(crate) fn halves(cx: &mut Context<'_>, x: ValueId) -> Result<[ValueId; 2]> {
    let low = cx.cast(x, DType::U32)?;
    let amount = word(cx, DType::U64, 32)?;
    let high = right(cx, x, amount)?;
    Ok([low, cx.cast(high, DType::U32)?])
}

/// 64-bit words of a low and a high half.
#[track_caller]
pub(crate) fn join(cx: &mut Context<'_>, [low, high]: [ValueId; 2]) -> Result<ValueId> {
    let (low, high) = (cx.cast(low, DType::U64)?, cx.cast(high, DType::U64)?);
    let amount = word(cx, DType::U64, 32)?;
    let high = left(cx, high, amount)?;
    or(cx, low, high)
}

/// The number of ones in each word of 32 or 64 bits: pairs of bits count themselves, then pairs of
/// pairs, and so on; a product adds up the bytes in the highest one.
#[track_caller]
pub(crate) fn ones(cx: &mut Context<'_>, x: ValueId) -> Result<ValueId> {
    let dtype = cx.dtype(x);
    let all = if dtype == DType::U64 { u64::MAX } else { u64::from(u32::MAX) };
    let [pairs, nibbles, bytes, units] =
        [all / 3, all / 5, all / 17, all / 255].map(|mask| word(cx, dtype, mask));
    let [one, two, four, top] =
        [1, 2, 4, dtype.bits() - 8].map(|amount| word(cx, dtype, u64::from(amount)));
    let (pairs, nibbles, bytes, units) = (pairs?, nibbles?, bytes?, units?);

    let upper = right(cx, x, one?)?;
    let upper = and(cx, upper, pairs)?;
    let x = sub(cx, x, upper)?;
    let upper = right(cx, x, two?)?;
    let (lower, upper) = (and(cx, x, nibbles)?, and(cx, upper, nibbles)?);
    let x = add(cx, lower, upper)?;
    let upper = right(cx, x, four?)?;
    let x = add(cx, x, upper)?;
    let x = and(cx, x, bytes)?;
    let x = mul(cx, x, units)?;
    right(cx, x, top?)
}
