//! convert_element_type[new_dtype](x) → Cast(x); a float becomes the nearest integer in range, and NaN
//! becomes 0; numbers too large for an 8-bit float become infinity or NaN

use onnx::{Assumption, ValueId, attrs};
use tensor::{DType, DTypeKind};

use crate::formula::formulas;
use crate::{Context, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let to: DType = cx.param("new_dtype")?;
    let (x, from) = (x[0], cx.dtype(x[0]));
    if from == to {
        return Ok(vec![x]);
    }
    // Small floats are widened first, because conversions of wider types are better defined.
    let x = if from.is_float() && from.bits() < 32 { cx.cast(x, DType::F32)? } else { x };
    let whole = from.is_float() && to.is_integer() && to.bits() >= 8;
    let result = if whole && cx.assumes(Assumption::CastsInRange) {
        cx.cast(x, to)?
    } else if from.is_float() && to.is_integer() {
        to_integer(cx, x, to)?
    } else if to.is_float() && to.bits() <= 8 {
        to_small_float(cx, x, to)?
    } else {
        cx.cast(x, to)?
    };
    Ok(vec![result])
}

/// Replaces numbers that would round above the largest finite one with infinity before the
/// conversion. ONNX does not specify whether numbers beyond the largest one are rounded first.
fn to_small_float(cx: &mut Context<'_>, x: ValueId, to: DType) -> Result<ValueId> {
    let mut x = cx.cast(x, DType::F32)?;
    let overflow = match to {
        DType::F8E4M3FN => Some(480.0),
        DType::F8E5M2 => Some(61440.0),
        _ => None,
    };
    if let Some(overflow) = overflow {
        [x] = formulas(cx, [x], |[x]| [x.abs().at_least(overflow).select(x * f64::INFINITY, x)])?;
    }
    let mut attrs = attrs! { to: to, saturate: false };
    if to == DType::F8E8M0FNU {
        attrs.extend(attrs! { round_mode: "nearest" });
    }
    Ok(cx.op("Cast", &[x], attrs)?)
}

/// Converts to integers, with results for NaN and numbers out of range, which ONNX leaves
/// undefined.
fn to_integer(cx: &mut Context<'_>, x: ValueId, to: DType) -> Result<ValueId> {
    let none = || RuleError::Internal(format!("{to} has no range"));
    let (low, high) = to.int_range().ok_or_else(none)?;
    // The upper bound of a wide integer type is not a float. The next power of two is above the
    // bound, and the float before it is below.
    let above = round(high + 1);
    let (is_float, below) = match cx.dtype(x) {
        DType::F64 => (to.bits() <= 53, above.next_down()),
        _ => (to.bits() <= 24, above - above * f64::from(f32::EPSILON) / 2.0),
    };
    let last = if is_float { round(high) } else { below };
    let [result] = formulas(cx, [x], |[x]| {
        let inside = x.is_nan().select(0.0, x).clip(round(low), last);
        // Types of less than a byte are truncated from a byte, which has no fraction that could be
        // rounded.
        let inside = match to.kind() {
            _ if to.bits() >= 8 => inside,
            DTypeKind::Signed => inside.cast(DType::I8),
            _ => inside.cast(DType::U8),
        };
        let result = inside.cast(to);
        if is_float {
            return [result];
        }
        [x.at_least(above).select(result.integer(high), result)]
    })?;
    Ok(result)
}

#[expect(clippy::cast_precision_loss, reason = "powers of two, or few bits")]
fn round(bound: i128) -> f64 {
    bound as f64
}
