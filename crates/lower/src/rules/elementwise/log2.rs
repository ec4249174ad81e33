//! log2(x) → Log(x) / Log(2)

use onnx::ValueId;

use crate::formula::formula;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[x]| x.ln() * std::f64::consts::LOG2_E)
}
