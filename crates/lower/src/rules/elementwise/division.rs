//! div(x, y) → Div(x, y); rem(x, y) → Mod(x, y, fmod=1), which has the sign of x. ONNX leaves
//! undefined what JAX defines for integers: x / 0 is -1, x rem 0 is x, and the least number / -1 is
//! itself

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, DTypeKind};

use crate::formula::{Num, formulas};
use crate::{Context, Result, RuleError};

pub(crate) fn div(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let Some(care) = Care::of(cx, x) else {
        return Ok(vec![cx.op("Div", x, Attrs::new())?]);
    };
    let dtype = cx.dtype(x[0]);
    let (low, high) = range(dtype)?;
    let all_ones = if dtype.kind() == DTypeKind::Signed { -1 } else { high };
    let [quotient] = formulas(cx, [x[0], x[1]], |[x, y]| {
        let Divisor { by, is_zero } = care.guarded(x, y, low);
        let quotient = x / by;
        [is_zero.select(x.integer(all_ones), quotient)]
    })?;
    Ok(vec![quotient])
}

pub(crate) fn rem(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let Some(care) = Care::of(cx, x) else {
        return Ok(vec![cx.op("Mod", x, attrs! { fmod: 1 })?]);
    };
    let (low, _) = range(cx.dtype(x[0]))?;
    let [by, is_zero] = formulas(cx, [x[0], x[1]], |[x, y]| {
        let Divisor { by, is_zero } = care.guarded(x, y, low);
        [by, is_zero]
    })?;
    let rest = cx.op("Mod", &[x[0], by], attrs! { fmod: 1 })?;
    Ok(vec![cx.op("Where", &[is_zero, x[0], rest], Attrs::new())?])
}

/// An integer divisor that is safe to divide by.
struct Divisor<'f> {
    by: Num<'f>,
    is_zero: Num<'f>,
}

/// The hazards of an integer division.
struct Care {
    /// `true` if the divisor may be -1 and the dividend the least number, whose negative overflows.
    overflow: bool,
}

impl Care {
    /// Returns `None` if the operands need no special care.
    fn of(cx: &Context<'_>, x: &[ValueId]) -> Option<Self> {
        let dtype = cx.dtype(x[0]);
        if !dtype.is_integer() {
            return None;
        }
        let known = cx.elements(x[1]).and_then(|divisors| divisors.to_ints());
        let may_be = |value: i128| known.as_ref().is_none_or(|known| known.contains(&value));
        let overflow = dtype.kind() == DTypeKind::Signed && may_be(-1);
        (may_be(0) || overflow).then_some(Self { overflow })
    }

    /// Replaces unsafe divisors with 1.
    fn guarded<'f>(&self, x: Num<'f>, y: Num<'f>, least: i128) -> Divisor<'f> {
        let is_zero = y.equals(0.0);
        let mut unsafe_ = is_zero;
        if self.overflow {
            unsafe_ = is_zero | (x.equals(x.integer(least)) & y.equals(-1.0));
        }
        Divisor { by: unsafe_.select(1.0, y), is_zero }
    }
}

fn range(dtype: DType) -> Result<(i128, i128)> {
    dtype.int_range().ok_or_else(|| RuleError::Internal(format!("{dtype} has no range")))
}
