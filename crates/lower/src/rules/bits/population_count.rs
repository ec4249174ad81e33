//! population_count(x) → bits counted in parallel, with BitShift, BitwiseAnd and one Mul

use super::unsigned_words::{ones, wide};
use crate::formula::Num;

pub(crate) fn lower(x: Num<'_>) -> Num<'_> {
    ones(wide(x)).cast(x.dtype())
}
