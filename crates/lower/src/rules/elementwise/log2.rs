//! log2(x) → Log(x) / Log(2)

use crate::formula::Num;

pub(crate) fn lower(x: Num<'_>) -> Num<'_> {
    x.ln() * std::f64::consts::LOG2_E
}
