//! shift_left, shift_right_logical, shift_right_arithmetic → arithmetic on unsigned integers, with
//! JAX's results for amounts of the width and more

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Kind};

use super::Result;
use crate::Context;

/// The unsigned type of the same width.
fn unsigned(dtype: DType) -> DType {
    match dtype {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        other => other,
    }
}

/// Shifts the bits of `x`; what is shifted by the width or more (negative amounts are huge unsigned
/// ones) becomes zero.
fn logical(cx: &mut Context<'_>, x: &[ValueId], direction: &str) -> Result<ValueId> {
    let dtype = cx.dtype(x[0]);
    let bits = unsigned(dtype);
    let (value, amount) = (cx.cast(x[0], bits)?, cx.cast(x[1], bits)?);
    let width = cx.scalar(bits, f64::from(dtype.bits()))?;
    let zero = cx.scalar(bits, 0.0)?;
    let inside = cx.op("Less", &[amount, width], Attrs::new())?;
    let amount = cx.op("Where", &[inside, amount, zero], Attrs::new())?;
    let shifted = cx.op("BitShift", &[value, amount], attrs! { direction: direction })?;
    let result = cx.op("Where", &[inside, shifted, zero], Attrs::new())?;
    Ok(cx.cast(result, dtype)?)
}

pub(super) fn left(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    Ok(vec![logical(cx, x, "LEFT")?])
}

pub(super) fn right_logical(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    Ok(vec![logical(cx, x, "RIGHT")?])
}

/// A negative number is shifted as the complement of its complement, which is not negative; an
/// amount of the width or more leaves nothing but the sign.
pub(super) fn right_arithmetic(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    if dtype.kind() == Kind::Unsigned {
        return right_logical(cx, x);
    }
    let zero = cx.scalar(dtype, 0.0)?;
    let negative = cx.op("Less", &[x[0], zero], Attrs::new())?;
    let flipped = cx.op("BitwiseNot", &[x[0]], Attrs::new())?;
    let positive = cx.op("Where", &[negative, flipped, x[0]], Attrs::new())?;
    let shifted = logical(cx, &[positive, x[1]], "RIGHT")?;
    let back = cx.op("BitwiseNot", &[shifted], Attrs::new())?;
    Ok(vec![cx.op("Where", &[negative, back, shifted], Attrs::new())?])
}
