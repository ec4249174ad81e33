//! one_minus_square(x) → (1 + x) · (1 - x), which keeps the digits that 1 - x² loses near 1

use onnx::ValueId;

use crate::formula::formula;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[x]| (1.0 + x) * (1.0 - x))
}
