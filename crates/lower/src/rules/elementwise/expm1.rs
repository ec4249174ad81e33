//! expm1(x) → (Exp(x) - 1) · x / Log(Exp(x)), which keeps the digits that `Exp(x) - 1` loses near 0

use onnx::ValueId;

use crate::formula::formula;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[x]| x.exp_m1())
}
