//! shift_left, shift_right_logical, shift_right_arithmetic → arithmetic on unsigned integers, with
//! JAX's results for amounts of at least the width

use onnx::{Attrs, ValueId, attrs};

use super::unsigned_words::signed;
use crate::{Context, Result};

/// Shifts the bits of `x`. An amount of at least the width gives zero; negative amounts are huge as
/// unsigned numbers.
fn logical(cx: &mut Context<'_>, x: &[ValueId], direction: &str) -> Result<ValueId> {
    let dtype = cx.dtype(x[0]);
    let bits = dtype.unsigned();
    let value = cx.cast(x[0], bits)?;
    if let Some(amount) = known_amount(cx, x[1]) {
        let shifted = if amount < u64::from(dtype.bits()) {
            let amount = cx.int(bits, amount.into())?;
            cx.op("BitShift", &[value, amount], attrs! { direction: direction })?
        } else {
            let shape = cx.shape(value).to_vec();
            cx.full(bits, 0.0, &shape)?
        };
        return Ok(cx.cast(shifted, dtype)?);
    }
    let amount = cx.cast(x[1], bits)?;
    let width = cx.scalar(bits, f64::from(dtype.bits()))?;
    let zero = cx.scalar(bits, 0.0)?;
    let inside = cx.op("Less", &[amount, width], Attrs::new())?;
    let amount = cx.op("Where", &[inside, amount, zero], Attrs::new())?;
    let shifted = cx.op("BitShift", &[value, amount], attrs! { direction: direction })?;
    let result = cx.op("Where", &[inside, shifted, zero], Attrs::new())?;
    Ok(cx.cast(result, dtype)?)
}

/// Returns the amount that all elements are shifted by, as an unsigned number.
fn known_amount(cx: &Context<'_>, amount: ValueId) -> Option<u64> {
    let amounts = cx.facts().constant(amount)?;
    if !amounts.shape().is_empty() {
        return None;
    }
    let amount = *amounts.to_ints()?.first()?;
    // A negative amount is equivalent to any amount that is too large.
    Some(u64::try_from(amount).unwrap_or(u64::MAX))
}

pub(crate) fn left(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    Ok(vec![logical(cx, x, "LEFT")?])
}

pub(crate) fn right_logical(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    Ok(vec![logical(cx, x, "RIGHT")?])
}

/// Shifts in copies of the highest bit from the left, for signed and unsigned types. Where that bit
/// is set, the complement is shifted. An amount of at least the width leaves only copies.
pub(crate) fn right_arithmetic(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    let signed = cx.cast(x[0], signed(dtype))?;
    let zero = cx.scalar_like(signed, 0.0)?;
    let negative = cx.op("Less", &[signed, zero], Attrs::new())?;
    let flipped = cx.op("BitwiseNot", &[x[0]], Attrs::new())?;
    let positive = cx.op("Where", &[negative, flipped, x[0]], Attrs::new())?;
    let shifted = logical(cx, &[positive, x[1]], "RIGHT")?;
    let back = cx.op("BitwiseNot", &[shifted], Attrs::new())?;
    Ok(vec![cx.op("Where", &[negative, back, shifted], Attrs::new())?])
}
