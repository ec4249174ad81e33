//! Operators that return shapes, and operators that create tensors from shapes.

use tensor::{DType, Dim, Type};

use super::call::Call;
use super::movement::sizes;
use crate::attr::constant_of;
use crate::{Attr, Result};
use tensor::bounds::{ceil_div, non_negative};

/// Returns the axes that `Shape` reports.
pub(super) fn reported(call: &Call<'_>) -> Result<std::ops::Range<usize>> {
    let rank = call.ty(0)?.rank();
    let place = |at: i64| {
        let counted = if at < 0 { at.saturating_add(rank as i64) } else { at };
        usize::try_from(counted).unwrap_or(0).min(rank)
    };
    let start = place(call.int("start", 0)?);
    let end = place(call.int("end", i64::MAX)?);
    Ok(start..end.max(start))
}

pub(crate) fn shape(call: &Call<'_>) -> Result<Vec<Type>> {
    Ok(vec![Type::new(DType::I64, [reported(call)?.len().into()])])
}

pub(crate) fn size(_: &Call<'_>) -> Result<Vec<Type>> {
    Ok(vec![Type::new(DType::I64, [])])
}

pub(crate) fn constant_of_shape(call: &Call<'_>) -> Result<Vec<Type>> {
    call.dtype_is(0, DType::I64)?;
    let dtype = match call.attr("value") {
        None => DType::F32,
        Some(Attr::Tensor(value)) if value.len() == 1 => value.dtype(),
        Some(_) => return Err(call.error("`value` must be a tensor of one element")),
    };
    Ok(vec![Type::new(dtype, sizes(call, 0)?.into_vec())])
}

pub(crate) fn range(call: &Call<'_>) -> Result<Vec<Type>> {
    for i in 0..3 {
        call.ranked(i, 0)?;
        call.same_dtype(0, i)?;
    }
    let dtype = call.ty(0)?.dtype;
    let count = if dtype.is_float() { float_count(call)? } else { integer_count(call)? };
    Ok(vec![Type::new(dtype, [count])])
}

fn integer_count(call: &Call<'_>) -> Result<Dim> {
    let (start, limit, step) = (call.single(0)?, call.single(1)?, call.single(2)?);
    let count = match step {
        Dim::Known(0) => return Err(call.error("the step is 0")),
        Dim::Known(step @ 1..) => ceil_div(limit - start, step),
        Dim::Known(step) => ceil_div(start - limit, step.saturating_neg()),
        step => return Err(call.error(format!("the step is {step}, but must be a number"))),
    };
    Ok(non_negative(&count))
}

#[expect(clippy::cast_possible_truncation, reason = "sizes are far below the limits of a float")]
fn float_count(call: &Call<'_>) -> Result<Dim> {
    let read = |i: usize| {
        let values = call.graph.tensor(call.value(i)?).and_then(tensor::Tensor::to_f64s);
        let value = values.and_then(|values| values.first().copied());
        value.ok_or_else(|| call.error(format!("input {i} must be known here")))
    };
    let (start, step) = (read(0)?, read(2)?);
    // With a step of one, there are as many numbers as the axis has elements.
    if step == 1.0
        && (0.0..1.0).contains(&start)
        && let Some(size) = call.graph.facts().size(call.value(1)?)
    {
        return Ok(non_negative(&size));
    }
    let limit = read(1)?;
    // The distance is rounded to the element type before it is divided.
    let distance = match call.ty(0)?.dtype {
        DType::F64 => limit - start,
        DType::F32 => f64::from(limit as f32 - start as f32),
        other => return Err(call.error(format!("the length of a range of {other} is unknown"))),
    };
    let count = (distance / step).ceil();
    if !count.is_finite() || count > 1e15 {
        return Err(call.error(format!("{start} to {limit} by {step} is not a range")));
    }
    Ok(Dim::Known((count as i64).max(0)))
}

/// Infers the type of a constant, which is given by one of several attributes.
pub(crate) fn constant(call: &Call<'_>) -> Result<Vec<Type>> {
    let constant = constant_of(call.attrs);
    let wrong = || call.error("there must be one numeric value attribute and nothing else");
    Ok(vec![constant.ok_or_else(wrong)?.ty()])
}
