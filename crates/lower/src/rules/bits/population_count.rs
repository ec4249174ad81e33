//! population_count(x) → bits counted in parallel, with BitShift, BitwiseAnd and one Mul

use onnx::ValueId;

use super::unsigned_words::{ones, wide};
use crate::formula::formulas;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let [count] = formulas(cx, [x[0]], |[x]| [ones(wide(x)).cast(x.dtype())])?;
    Ok(vec![count])
}
