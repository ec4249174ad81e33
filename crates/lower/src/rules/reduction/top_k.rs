//! top_k[k, axis](x) → TopK; floats in the order of their bits, where zeros and NaN have signs

use onnx::{Assumption, Attrs, ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use crate::{Context, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let k: Dim = cx.param("k")?;
    let axis = cx.param_or("axis", cx.rank(x[0]) as i64 - 1)?;
    let (values, places) = (cx.out(0), cx.out(1));
    if values.shape.contains(&Dim::Known(0)) {
        let none = cx.full(values.dtype, 0.0, &values.shape)?;
        return Ok(vec![none, cx.full(places.dtype, 0.0, &places.shape)?]);
    }
    let count = cx.dims(std::slice::from_ref(&k))?;
    let numbers = match values.dtype {
        DType::Bool => cx.cast(x[0], DType::U8)?,
        dtype if dtype.is_float() && !cx.assumes(Assumption::NoNan) => total_order(cx, x[0])?,
        _ => x[0],
    };
    let found = cx.op_many("TopK", &[numbers, count], attrs! { axis: axis }, 2)?;
    let largest = match numbers == x[0] {
        true => found[0],
        false => cx.op("GatherElements", &[x[0], found[1]], attrs! { axis: axis })?,
    };
    Ok(vec![largest, cx.cast(found[1], places.dtype)?])
}

/// Returns integers in the order of the floats `x`: NaN with a sign, minus infinity, …, minus zero,
/// zero, …, infinity, NaN.
#[track_caller]
pub(crate) fn total_order(cx: &mut Context<'_>, x: ValueId) -> Result<ValueId> {
    let wide = if cx.dtype(x).bits() < 16 { cx.cast(x, DType::F32)? } else { x };
    let integer = match cx.dtype(wide).bits() {
        16 => DType::I16,
        32 => DType::I32,
        _ => DType::I64,
    };
    let bits = cx.op("BitCast", &[wide], attrs! { to: integer })?;
    // Below the sign, the bits of negative numbers count backwards.
    let all = integer.int_range().and_then(|(_, high)| Tensor::int_scalar(integer, high));
    let all = cx.constant(all.ok_or_else(|| RuleError::Internal("no integer".to_owned()))?);
    let zero = cx.scalar(integer, 0.0)?;
    let negative = cx.op("Less", &[bits, zero], Attrs::new())?;
    let flipped = cx.op("BitwiseXor", &[bits, all], Attrs::new())?;
    Ok(cx.op("Where", &[negative, flipped, bits], Attrs::new())?)
}
