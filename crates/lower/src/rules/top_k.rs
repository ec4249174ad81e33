//! top_k[k, axis](x) → TopK; NaN count as infinity, so that one that meets infinity keeps its place,
//! where JAX puts it first

use onnx::{Attrs, ValueId, attrs};
use tensor::Dim;

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let k: Dim = cx.param("k")?;
    let axis = cx.param_or("axis", cx.rank(x[0]) as i64 - 1)?;
    let (values, places) = (cx.out(0), cx.out(1));
    if values.shape.contains(&Dim::Known(0)) {
        let none = cx.full(values.dtype, 0.0, &values.shape)?;
        return Ok(vec![none, cx.full(places.dtype, 0.0, &places.shape)?]);
    }
    let count = cx.dims(std::slice::from_ref(&k))?;
    if !values.dtype.is_float() {
        let found = cx.op_many("TopK", &[x[0], count], attrs! { axis: axis }, 2)?;
        return Ok(vec![found[0], cx.cast(found[1], places.dtype)?]);
    }
    let nan = cx.op("IsNaN", x, Attrs::new())?;
    let infinity = cx.scalar_like(x[0], f64::INFINITY)?;
    let numbers = cx.op("Where", &[nan, infinity, x[0]], Attrs::new())?;
    let found = cx.op_many("TopK", &[numbers, count], attrs! { axis: axis }, 2)?;
    let largest = cx.op("GatherElements", &[x[0], found[1]], attrs! { axis: axis })?;
    Ok(vec![largest, cx.cast(found[1], places.dtype)?])
}
