//! Arithmetic on unsigned integers as words of bits.

use tensor::DType;

use crate::formula::Num;

/// Returns the signed type of the same width.
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

/// Splits 64-bit words into their low and high halves.
#[track_caller]
pub(crate) fn halves(x: Num<'_>) -> [Num<'_>; 2] {
    [x.cast(DType::U32), (x >> 32_u64).cast(DType::U32)]
}

/// Joins a low and a high half into 64-bit words.
#[track_caller]
pub(crate) fn join<'f>([low, high]: [Num<'f>; 2]) -> Num<'f> {
    let (low, high) = (low.cast(DType::U64), high.cast(DType::U64));
    low | (high << 32_u64)
}

/// Zero-extends the bits of integers to words of 32 or 64 bits.
#[track_caller]
pub(crate) fn wide(x: Num<'_>) -> Num<'_> {
    let bits = x.cast(x.dtype().unsigned());
    bits.cast(if bits.dtype() == DType::U64 { DType::U64 } else { DType::U32 })
}

/// Counts the ones in each word of 32 or 64 bits: first in pairs of bits, then in pairs of pairs,
/// and so on. A product adds up the bytes in the highest byte.
#[track_caller]
pub(crate) fn ones(x: Num<'_>) -> Num<'_> {
    let all = if x.dtype() == DType::U64 { u64::MAX } else { u64::from(u32::MAX) };
    let (pairs, nibbles, bytes, units) = (all / 3, all / 5, all / 17, all / 255);
    let x = x - ((x >> 1_u64) & pairs);
    let upper = x >> 2_u64;
    let x = (x & nibbles) + (upper & nibbles);
    let x = (x + (x >> 4_u64)) & bytes;
    (x * units) >> u64::from(x.dtype().bits() - 8)
}
