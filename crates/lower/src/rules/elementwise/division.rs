//! div(x, y) → Div(x, y); rem(x, y) → Mod(x, y, fmod=1), which has the sign of x. ONNX does not define
//! what JAX does for integers: x / 0 is -1, x rem 0 is x, and the least number / -1 is itself

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Kind, Tensor};

use crate::rules::Result;
use crate::{Context, RuleError};

pub(crate) fn div(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let Some(Divisor { by, is_zero }) = Divisor::guarded(cx, x)? else {
        return Ok(vec![cx.op("Div", x, Attrs::new())?]);
    };
    let quotient = cx.op("Div", &[x[0], by], Attrs::new())?;
    let dtype = cx.dtype(x[0]);
    let all_ones = if dtype.kind() == Kind::Signed { -1 } else { range(dtype)?.1 };
    let all_ones = int(cx, dtype, all_ones)?;
    Ok(vec![cx.op("Where", &[is_zero, all_ones, quotient], Attrs::new())?])
}

pub(crate) fn rem(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let Some(Divisor { by, is_zero }) = Divisor::guarded(cx, x)? else {
        return Ok(vec![cx.op("Mod", x, attrs! { fmod: 1 })?]);
    };
    let rest = cx.op("Mod", &[x[0], by], attrs! { fmod: 1 })?;
    Ok(vec![cx.op("Where", &[is_zero, x[0], rest], Attrs::new())?])
}

/// An integer divisor that is safe to divide by.
struct Divisor {
    by: ValueId,
    is_zero: ValueId,
}

impl Divisor {
    /// The divisor with 1 in place of numbers that cannot be divided by; `None` if the operands are
    /// safe.
    fn guarded(cx: &mut Context<'_>, x: &[ValueId]) -> Result<Option<Self>> {
        let dtype = cx.dtype(x[0]);
        if !dtype.is_integer() {
            return Ok(None);
        }
        let known = cx.elements(x[1]).and_then(|divisors| divisors.to_ints());
        let may_be = |value: i128| known.as_ref().is_none_or(|known| known.contains(&value));
        let overflows = dtype.kind() == Kind::Signed && may_be(-1);
        if !may_be(0) && !overflows {
            return Ok(None);
        }
        let zero = int(cx, dtype, 0)?;
        let is_zero = cx.op("Equal", &[x[1], zero], Attrs::new())?;
        let mut unsafe_ = is_zero;
        if overflows {
            let (least, minus_one) = (int(cx, dtype, range(dtype)?.0)?, int(cx, dtype, -1)?);
            let least = cx.op("Equal", &[x[0], least], Attrs::new())?;
            let minus_one = cx.op("Equal", &[x[1], minus_one], Attrs::new())?;
            let both = cx.op("And", &[least, minus_one], Attrs::new())?;
            unsafe_ = cx.op("Or", &[is_zero, both], Attrs::new())?;
        }
        let one = int(cx, dtype, 1)?;
        let by = cx.op("Where", &[unsafe_, one, x[1]], Attrs::new())?;
        Ok(Some(Self { by, is_zero }))
    }
}

fn range(dtype: DType) -> Result<(i128, i128)> {
    dtype.int_range().ok_or_else(|| RuleError::Internal(format!("{dtype} has no range")))
}

fn int(cx: &mut Context<'_>, dtype: DType, value: i128) -> Result<ValueId> {
    let tensor = Tensor::int_scalar(dtype, value);
    let tensor = tensor.ok_or_else(|| RuleError::Internal(format!("{value} is not a {dtype}")))?;
    Ok(cx.constant(tensor))
}
