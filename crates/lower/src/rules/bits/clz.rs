//! clz(x) → the width minus the number of ones, after the highest one is copied to all lower
//! positions

use super::unsigned_words::{ones, wide};
use crate::formula::Num;

pub(crate) fn lower(x: Num<'_>) -> Num<'_> {
    let (mut bits, mut distance, width) = (wide(x), 1, u64::from(x.dtype().bits()));
    while distance < width {
        bits = bits | (bits >> distance);
        distance *= 2;
    }
    let ones = ones(bits);
    (bits.integer(i128::from(width)) - ones).cast(x.dtype())
}
