//! div(x, y) → Div(x, y); rem(x, y) → Mod(x, y, fmod=1), which has the sign of x. ONNX leaves
//! undefined what JAX defines for integers: x / 0 is -1, x rem 0 is x, and the least number / -1 is
//! itself

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, DTypeKind};

use crate::formula::{Num, formulas};
use crate::{Context, Result, RuleError};

pub(crate) fn div(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let Some(overflows) = hazards(cx, x) else {
        return Ok(vec![cx.op("Div", x, Attrs::new())?]);
    };
    let (low, high) = range(cx.dtype(x[0]))?;
    let all_ones = if low < 0 { -1 } else { high };
    let [quotient] = formulas(cx, [x[0], x[1]], |[x, y]| {
        let [by, is_zero] = guarded(x, y, overflows.then_some(low));
        let quotient = x / by;
        [is_zero.select(x.integer(all_ones), quotient)]
    })?;
    Ok(vec![quotient])
}

pub(crate) fn rem(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let Some(overflows) = hazards(cx, x) else {
        return Ok(vec![cx.op("Mod", x, attrs! { fmod: 1 })?]);
    };
    let (low, _) = range(cx.dtype(x[0]))?;
    let operands = [x[0], x[1]];
    let [by, is_zero] = formulas(cx, operands, |[x, y]| guarded(x, y, overflows.then_some(low)))?;
    let rest = cx.op("Mod", &[x[0], by], attrs! { fmod: 1 })?;
    Ok(vec![cx.op("Where", &[is_zero, x[0], rest], Attrs::new())?])
}

/// Returns `None` if a division needs no special care. Otherwise, the result is `true` if the
/// divisor may be -1 and the dividend the least number, whose negative overflows.
fn hazards(cx: &Context<'_>, x: &[ValueId]) -> Option<bool> {
    let dtype = cx.dtype(x[0]);
    if !dtype.is_integer() {
        return None;
    }
    let known = cx.facts().elements(x[1]).and_then(|divisors| divisors.to_ints());
    let may_be = |value: i128| known.as_ref().is_none_or(|known| known.contains(&value));
    let overflows = dtype.kind() == DTypeKind::Signed && may_be(-1);
    (may_be(0) || overflows).then_some(overflows)
}

/// Replaces divisors that are zero, and -1 if the dividend is the `least` number, with 1. Also
/// returns the mask of zeros.
fn guarded<'f>(x: Num<'f>, y: Num<'f>, least: Option<i128>) -> [Num<'f>; 2] {
    let is_zero = y.equals(0.0);
    let mut unsafe_ = is_zero;
    if let Some(least) = least {
        unsafe_ = is_zero | (x.equals(x.integer(least)) & y.equals(-1.0));
    }
    [unsafe_.select(1.0, y), is_zero]
}

fn range(dtype: DType) -> Result<(i128, i128)> {
    dtype.int_range().ok_or_else(|| RuleError::Internal(format!("{dtype} has no range")))
}
