//! argmax[axes, index_dtype](x), argmin → ArgMax, ArgMin; the first NaN wins over everything, which
//! ONNX leaves undefined, so it is searched for separately

use onnx::{Assumption, Attrs, ValueId, attrs};
use tensor::DType;

use super::reduce::zeros_and_ones;
use crate::{Context, Result, RuleError};

pub(crate) fn max(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    choose(cx, x[0], "ArgMax")
}

pub(crate) fn min(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    choose(cx, x[0], "ArgMin")
}

#[track_caller]
fn choose(cx: &mut Context<'_>, x: ValueId, op: &'static str) -> Result {
    let axes: Vec<usize> = cx.param("axes")?;
    let [axis] = axes.as_slice() else {
        return Err(RuleError::unsupported(
            "the index of an extremum over several axes is not supported",
        ));
    };
    let dtype: DType = cx.param("index_dtype")?;
    let position = *axis as i64;
    let numbers = if cx.dtype(x) == DType::Bool { zeros_and_ones(cx, x, &axes)? } else { x };
    let mut index = cx.op(op, &[numbers], attrs! { axis: position, keepdims: false })?;
    if cx.dtype(x).is_float() && !cx.assumes(Assumption::NoNan) {
        let nan = cx.op("IsNaN", &[x], Attrs::new())?;
        let nan = zeros_and_ones(cx, nan, &axes)?;
        let first = cx.op("ArgMax", &[nan], attrs! { axis: position, keepdims: false })?;
        let axes = cx.i64s(&[position]);
        let any = cx.op("ReduceMax", &[nan, axes], attrs! { keepdims: false })?;
        let any = cx.cast(any, DType::Bool)?;
        index = cx.op("Where", &[any, first, index], Attrs::new())?;
    }
    Ok(vec![cx.cast(index, dtype)?])
}
