//! eq_to, le_to, lt_to → Equal, LessOrEqual, Less in the order of the bits: minus zero is less than
//! zero and infinity less than NaN, which are taken to be positive, as JAX makes them before it compares

use onnx::{Attrs, ValueId};

use crate::Context;
use crate::rules::Result;

pub(crate) fn le(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let [a, b] = [x[0], x[1]];
    if !cx.dtype(a).is_float() {
        return Ok(vec![cx.op("LessOrEqual", x, Attrs::new())?]);
    }
    let smaller = cx.op("LessOrEqual", x, Attrs::new())?;
    let behind = is_zero_before_minus_zero(cx, a, b)?;
    let ahead = cx.op("Not", &[behind], Attrs::new())?;
    let smaller = cx.op("And", &[smaller, ahead], Attrs::new())?;
    let last = cx.op("IsNaN", &[b], Attrs::new())?;
    Ok(vec![cx.op("Or", &[smaller, last], Attrs::new())?])
}

pub(crate) fn lt(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    if !cx.dtype(x[0]).is_float() {
        return Ok(vec![cx.op("Less", x, Attrs::new())?]);
    }
    let reversed = le(cx, &[x[1], x[0]])?;
    Ok(vec![cx.op("Not", &reversed, Attrs::new())?])
}

pub(crate) fn eq(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    if !cx.dtype(x[0]).is_float() {
        return Ok(vec![cx.op("Equal", x, Attrs::new())?]);
    }
    let (one, other) = (le(cx, x)?[0], le(cx, &[x[1], x[0]])?[0]);
    Ok(vec![cx.op("And", &[one, other], Attrs::new())?])
}

/// Only the reciprocals of zeros show their signs.
fn is_zero_before_minus_zero(cx: &mut Context<'_>, a: ValueId, b: ValueId) -> Result<ValueId> {
    let equal = cx.op("Equal", &[a, b], Attrs::new())?;
    let (a, b) =
        (cx.op("Reciprocal", &[a], Attrs::new())?, cx.op("Reciprocal", &[b], Attrs::new())?);
    let above = cx.op("Greater", &[a, b], Attrs::new())?;
    Ok(cx.op("And", &[equal, above], Attrs::new())?)
}
