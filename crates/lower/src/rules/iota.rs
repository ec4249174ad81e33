//! iota[dtype, shape, dimension]() → Expand(Reshape(Range(0, n)))

use onnx::{Attrs, ValueId};
use tensor::{DType, Dim};

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, _: &[ValueId]) -> Result {
    let axis: usize = cx.param("dimension")?;
    let (dtype, shape) = (cx.out(0).dtype, cx.out(0).shape.clone());
    // Counted in integers: a narrow float cannot count far, but it can round.
    let (start, step) = (cx.scalar(DType::I64, 0.0)?, cx.scalar(DType::I64, 1.0)?);
    let limit = cx.dims(std::slice::from_ref(&shape[axis]))?;
    let limit = cx.squeeze(limit, &[0])?;
    let range = cx.op("Range", &[start, limit, step], Attrs::new())?;
    let range = cx.cast(range, dtype)?;
    let mut aligned = vec![Dim::Known(1); shape.len() - axis];
    aligned[0] = shape[axis].clone();
    let aligned = cx.reshape(range, &aligned)?;
    Ok(vec![cx.expand(aligned, &shape)?])
}
