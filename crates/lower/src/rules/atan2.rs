//! atan2(y, x) → Atan(y / x), turned by half a circle to the left of the y-axis

use onnx::ValueId;

use super::Result;
use crate::Context;
use crate::formula::formula;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[y, x]| y.atan2(x))
}
