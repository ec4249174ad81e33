//! Quantisation.

use tensor::{DType, Dim, Type};

use super::call::Call;
use crate::Result;
use tensor::bounds::{same, same_shape};

/// Returns the element type that `output_dtype` requests. Zero requests none.
fn wanted(call: &Call<'_>) -> Result<Option<DType>> {
    if call.int("output_dtype", 0)? == 0 { Ok(None) } else { call.dtype("output_dtype") }
}

fn is_single(ty: &Type) -> bool {
    matches!(ty.shape.as_slice(), [] | [Dim::Known(1)])
}

/// Checks that scale and zero point have one element, one per slice along the axis, or one per
/// block.
fn check_scale(call: &Call<'_>) -> Result<()> {
    let (ty, scale) = (call.ty(0)?, call.ty(1)?);
    let fits = match scale.shape.as_slice() {
        _ if is_single(scale) => true,
        [size] if call.int("block_size", 0)? == 0 => {
            same(size, &ty.shape[call.axis_attr(1, ty.rank())?])
        }
        _ => call.int("block_size", 0)? > 0 && scale.rank() == ty.rank(),
    };
    if !fits {
        return Err(call.error(format!("input 0 is {ty}, the scale {scale}")));
    }
    match call.optional_ty(2) {
        Some(zero) if is_single(zero) && is_single(scale) => Ok(()),
        Some(zero) if !same_shape(&zero.shape, &scale.shape) => {
            Err(call.error(format!("the scale is {scale}, the zero point {zero}")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn dequantize(call: &Call<'_>) -> Result<Vec<Type>> {
    check_scale(call)?;
    if call.optional(2).is_some() {
        call.same_dtype(0, 2)?;
    }
    let dtype = wanted(call)?.unwrap_or(call.ty(1)?.dtype);
    Ok(vec![Type::new(dtype, call.ty(0)?.shape.clone())])
}

pub(crate) fn quantize(call: &Call<'_>) -> Result<Vec<Type>> {
    check_scale(call)?;
    let dtype = match (call.optional_ty(2), wanted(call)?) {
        (Some(zero), Some(wanted)) if zero.dtype != wanted => {
            return Err(call.error(format!("the zero point is {zero}, `output_dtype` {wanted}")));
        }
        (Some(zero), _) => zero.dtype,
        (None, wanted) => wanted.unwrap_or(DType::U8),
    };
    Ok(vec![Type::new(dtype, call.ty(0)?.shape.clone())])
}

pub(crate) fn quantize_dynamically(call: &Call<'_>) -> Result<Vec<Type>> {
    call.dtype_is(0, DType::F32)?;
    let values = Type::new(DType::U8, call.ty(0)?.shape.clone());
    Ok(vec![values, Type::new(DType::F32, []), Type::new(DType::U8, [])])
}
