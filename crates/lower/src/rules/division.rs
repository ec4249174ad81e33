//! div(x, y) → Div, rem(x, y) → Mod, of which the remainder has the sign of x. Integers divided by zero
//! give minus one and leave x; the least integer divided by minus one overflows to itself

use onnx::{Attrs, ValueId, attrs};
use tensor::{Kind, Tensor};

use super::Result;
use crate::Context;

pub(super) fn div(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    if !cx.dtype(x[0]).is_integer() {
        return Ok(vec![cx.op("Div", x, Attrs::new())?]);
    }
    let divisor = Divisor::new(cx, x[1])?;
    let mut quotient = cx.op("Div", &[x[0], divisor.safe], Attrs::new())?;
    if let Some(negative) = divisor.minus_one {
        let opposite = cx.op("Neg", &[x[0]], Attrs::new())?;
        quotient = cx.op("Where", &[negative, opposite, quotient], Attrs::new())?;
    }
    if let Some(zero) = divisor.zero {
        let none = cx.scalar_like(x[0], 0.0)?;
        let ones = cx.op("BitwiseNot", &[none], Attrs::new())?;
        quotient = cx.op("Where", &[zero, ones, quotient], Attrs::new())?;
    }
    Ok(vec![quotient])
}

pub(super) fn rem(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    if !cx.dtype(x[0]).is_integer() {
        return Ok(vec![cx.op("Mod", x, attrs! { fmod: 1 })?]);
    }
    let divisor = Divisor::new(cx, x[1])?;
    let mut rest = cx.op("Mod", &[x[0], divisor.safe], attrs! { fmod: 1 })?;
    if let Some(zero) = divisor.zero {
        rest = cx.op("Where", &[zero, x[0], rest], Attrs::new())?;
    }
    Ok(vec![rest])
}

/// An integer to divide by.
struct Divisor {
    /// One in place of zero and minus one.
    safe: ValueId,
    /// Where it is zero; `None` if nowhere.
    zero: Option<ValueId>,
    /// Where it is minus one; `None` if nowhere.
    minus_one: Option<ValueId>,
}

impl Divisor {
    fn new(cx: &mut Context<'_>, value: ValueId) -> Result<Self> {
        let known = cx.graph.constant(value).and_then(Tensor::to_ints);
        if known.is_some_and(|known| known.iter().all(|n| !matches!(n, -1..=0))) {
            return Ok(Self { safe: value, zero: None, minus_one: None });
        }
        let (nothing, one) = (cx.scalar_like(value, 0.0)?, cx.scalar_like(value, 1.0)?);
        let zero = cx.op("Equal", &[value, nothing], Attrs::new())?;
        if cx.dtype(value).kind() == Kind::Unsigned {
            let safe = cx.op("Where", &[zero, one, value], Attrs::new())?;
            return Ok(Self { safe, zero: Some(zero), minus_one: None });
        }
        let opposite = cx.scalar_like(value, -1.0)?;
        let minus_one = cx.op("Equal", &[value, opposite], Attrs::new())?;
        let unsafe_ = cx.op("Or", &[zero, minus_one], Attrs::new())?;
        let safe = cx.op("Where", &[unsafe_, one, value], Attrs::new())?;
        Ok(Self { safe, zero: Some(zero), minus_one: Some(minus_one) })
    }
}
