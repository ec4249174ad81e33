//! log1p(x) → Log(1 + x) · x / ((1 + x) - 1), which keeps the digits that `1 + x` loses near 0

use onnx::ValueId;

use crate::formula::formula;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[x]| x.ln_1p())
}
