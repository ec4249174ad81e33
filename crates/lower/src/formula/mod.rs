//! Formulas over an equation's operands: [`onnx::formula`] in the types that JAX computes in.

pub(crate) mod number;

pub(crate) use onnx::formula::{Num, formulas, repeat};

use onnx::ValueId;

use crate::{Context, Result, RuleError};

/// Emits a formula of `operands`. Floats of fewer than 32 bits are widened to 32 and rounded once,
/// at the end, as in JAX.
pub(crate) fn formula<const N: usize>(
    cx: &mut Context<'_>,
    operands: &[ValueId],
    body: impl for<'f> FnOnce([Num<'f>; N]) -> Num<'f>,
) -> Result {
    let dtype = cx.out(0).dtype;
    let wrong = |_| RuleError::Internal(format!("{} operands, not {N}", operands.len()));
    let operands: [ValueId; N] = operands.try_into().map_err(wrong)?;
    let [result] = formulas(cx, operands, |x| [body(x.map(Num::widened)).cast(dtype)])?;
    Ok(vec![result])
}

/// Broadcasts the operands to the shape of the result, because a loop-carried value cannot grow.
#[track_caller]
pub(crate) fn spread(cx: &mut Context<'_>, operands: &[ValueId]) -> Result {
    let shape = cx.out(0).shape.clone();
    operands.iter().map(|operand| cx.expand(*operand, &shape)).collect()
}
