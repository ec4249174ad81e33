//! mulhi(x, y) → the upper half of a product: Mul in twice the width, or Mul of halves for 64 bits

use tensor::{DType, DTypeKind};

use super::unsigned_words::halves;
use crate::formula::Num;

pub(crate) fn lower<'f>(x: Num<'f>, y: Num<'f>) -> Num<'f> {
    if x.dtype().bits() == 64 { upper_of_long(x, y) } else { upper_of_short(x, y) }
}

fn upper_of_short<'f>(x: Num<'f>, y: Num<'f>) -> Num<'f> {
    let dtype = x.dtype();
    let wide = if dtype.kind() == DTypeKind::Signed { DType::I64 } else { DType::U64 };
    let product = x.cast(wide) * y.cast(wide);
    // The sign is a bit like any other: everything above the upper half is cut off.
    let upper = product.cast(DType::U64) >> u64::from(dtype.bits());
    upper.cast(dtype.unsigned()).cast(dtype)
}

/// Computes the upper half from products of halves, added from the lowest to the highest word.
fn upper_of_long<'f>(x: Num<'f>, y: Num<'f>) -> Num<'f> {
    let dtype = x.dtype();
    let [a, b] = [x, y].map(|factor| factor.cast(DType::U64)).map(halves);
    let [[a_low, a_high], [b_low, b_high]] =
        [a, b].map(|halves| halves.map(|half| half.cast(DType::U64)));
    let carried = (a_low * b_low) >> 32_u64;
    let [low, high] = halves(a_high * b_low + carried).map(|half| half.cast(DType::U64));
    let carried = (a_low * b_high + low) >> 32_u64;
    let upper = (a_high * b_high + high + carried).cast(dtype);
    if dtype.kind() != DTypeKind::Signed {
        return upper;
    }
    // As an unsigned number, a negative factor is too large by 2⁶⁴.
    [(x, y), (y, x)].into_iter().fold(upper, |upper, (factor, other)| {
        let excess = factor.less(0.0).select(other, 0.0);
        upper - excess
    })
}
