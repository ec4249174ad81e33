//! one_minus_square(x) → (1 + x) · (1 - x), which keeps the digits that 1 - x² loses near 1

use crate::formula::Num;

pub(crate) fn lower(x: Num<'_>) -> Num<'_> {
    (1.0 + x) * (1.0 - x)
}
