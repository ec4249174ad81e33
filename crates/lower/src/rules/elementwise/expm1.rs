//! expm1(x) → (Exp(x) - 1) · x / Log(Exp(x)), which keeps the digits that `Exp(x) - 1` loses near 0

use crate::formula::Num;

pub(crate) fn lower(x: Num<'_>) -> Num<'_> {
    x.exp_m1()
}
