//! log1p(x) → Log(1 + x) · x / ((1 + x) - 1), which keeps the digits that `1 + x` loses near 0

use crate::formula::Num;

pub(crate) fn lower(x: Num<'_>) -> Num<'_> {
    x.ln_1p()
}
