//! Elementwise operators, and operators that preserve the shape of their operand.

use tensor::{DType, Type};

use super::broadcast::{broadcast, broadcasts_to};
use super::call::Call;
use crate::Result;

/// Returns the type of the first operand.
pub(crate) fn same(call: &Call<'_>) -> Result<Vec<Type>> {
    Ok(vec![call.ty(0)?.clone()])
}

/// Returns the type of the first operand, which must be boolean.
pub(crate) fn not(call: &Call<'_>) -> Result<Vec<Type>> {
    call.dtype_is(0, DType::Bool)?;
    same(call)
}

/// Returns booleans in the shape of the first operand.
pub(crate) fn test(call: &Call<'_>) -> Result<Vec<Type>> {
    Ok(vec![Type::new(DType::Bool, call.ty(0)?.shape.clone())])
}

/// Returns the type of the first operand. The axis in the attribute must exist.
pub(crate) fn along_axis(call: &Call<'_>) -> Result<Vec<Type>> {
    call.axis_attr(-1, call.ty(0)?.rank())?;
    same(call)
}

/// Infers the type of an operator on two operands of the same element type.
pub(crate) fn binary(call: &Call<'_>) -> Result<Vec<Type>> {
    call.same_dtype(0, 1)?;
    let (a, b) = (call.ty(0)?, call.ty(1)?);
    Ok(vec![Type::new(a.dtype, broadcast(call, &a.shape, &b.shape)?)])
}

/// Infers the type of a comparison of two operands of the same element type.
pub(crate) fn compare(call: &Call<'_>) -> Result<Vec<Type>> {
    let mut types = binary(call)?;
    types[0].dtype = DType::Bool;
    Ok(types)
}

/// Infers the type of an operator on two booleans.
pub(crate) fn logical(call: &Call<'_>) -> Result<Vec<Type>> {
    call.dtype_is(0, DType::Bool)?;
    binary(call)
}

/// Infers the type of an operator on one or more operands of the same element type.
pub(crate) fn variadic(call: &Call<'_>) -> Result<Vec<Type>> {
    let mut ty = call.ty(0)?.clone();
    for i in 1..call.inputs.len() {
        call.same_dtype(0, i)?;
        ty.shape = broadcast(call, &ty.shape, &call.ty(i)?.shape)?;
    }
    Ok(vec![ty])
}

pub(crate) fn bit_shift(call: &Call<'_>) -> Result<Vec<Type>> {
    match call.string("direction", "")? {
        "LEFT" | "RIGHT" => binary(call),
        other => Err(call.error(format!("`direction` is `{other}`, not LEFT or RIGHT"))),
    }
}

pub(crate) fn modulo(call: &Call<'_>) -> Result<Vec<Type>> {
    let types = binary(call)?;
    if types[0].dtype.is_float() && !call.flag("fmod", false)? {
        return Err(call.error("floating-point operands need `fmod`"));
    }
    Ok(types)
}

/// Infers the type of `Pow`, whose exponent may have another element type.
pub(crate) fn power(call: &Call<'_>) -> Result<Vec<Type>> {
    let (a, b) = (call.ty(0)?, call.ty(1)?);
    Ok(vec![Type::new(a.dtype, broadcast(call, &a.shape, &b.shape)?)])
}

pub(crate) fn prelu(call: &Call<'_>) -> Result<Vec<Type>> {
    call.same_dtype(0, 1)?;
    broadcasts_to(call, 1, &call.ty(0)?.shape)?;
    same(call)
}

pub(crate) fn select(call: &Call<'_>) -> Result<Vec<Type>> {
    call.dtype_is(0, DType::Bool)?;
    call.same_dtype(1, 2)?;
    let (a, b) = (call.ty(1)?, call.ty(2)?);
    let shape = broadcast(call, &a.shape, &b.shape)?;
    Ok(vec![Type::new(a.dtype, broadcast(call, &shape, &call.ty(0)?.shape)?)])
}

pub(crate) fn cast(call: &Call<'_>) -> Result<Vec<Type>> {
    let to = call.dtype("to")?.ok_or_else(|| call.error("attribute `to` is missing"))?;
    Ok(vec![Type::new(to, call.ty(0)?.shape.clone())])
}

pub(crate) fn cast_like(call: &Call<'_>) -> Result<Vec<Type>> {
    Ok(vec![Type::new(call.ty(1)?.dtype, call.ty(0)?.shape.clone())])
}

pub(crate) fn bit_cast(call: &Call<'_>) -> Result<Vec<Type>> {
    let types = cast(call)?;
    let (from, to) = (call.ty(0)?.dtype, types[0].dtype);
    if from.bits() != to.bits() {
        let (a, b) = (from.bits(), to.bits());
        return Err(call.error(format!("{from} has {a} bits and {to} has {b}")));
    }
    Ok(types)
}

pub(crate) fn clip(call: &Call<'_>) -> Result<Vec<Type>> {
    for i in 1..call.inputs.len() {
        if call.optional(i).is_some() {
            call.same_dtype(0, i)?;
            call.ranked(i, 0)?;
        }
    }
    same(call)
}

/// Infers the type of `CumSum` and `CumProd`, whose axis is an operand.
pub(crate) fn cumulative(call: &Call<'_>) -> Result<Vec<Type>> {
    call.is_index(1)?;
    call.is_single(1)?;
    if let Ok(axis) = call.single(1)
        && let Some(axis) = axis.as_known()
    {
        call.axis(axis, call.ty(0)?.rank())?;
    }
    same(call)
}

pub(crate) fn trilu(call: &Call<'_>) -> Result<Vec<Type>> {
    call.ranked_from(0, 2)?;
    if call.optional(1).is_some() {
        call.dtype_is(1, DType::I64)?;
        call.is_single(1)?;
    }
    same(call)
}

pub(crate) fn gelu(call: &Call<'_>) -> Result<Vec<Type>> {
    match call.string("approximate", "none")? {
        "none" | "tanh" => same(call),
        other => Err(call.error(format!("`approximate` is `{other}`, not none or tanh"))),
    }
}
