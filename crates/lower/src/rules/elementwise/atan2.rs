//! atan2(y, x) → Atan(y / x), rotated by half a turn to the left of the y-axis

use onnx::ValueId;

use crate::formula::formula;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[y, x]| y.atan2(x))
}
