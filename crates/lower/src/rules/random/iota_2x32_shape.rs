//! iota_2x32_shape[shape]() → the high and the low words of Reshape(Range(0, n))

use onnx::ValueId;
use tensor::division::product;
use tensor::{DType, Dim};

use crate::formula::formulas;
use crate::rules::bits::unsigned_words::halves;
use crate::rules::indexing::indices;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, _: &[ValueId]) -> Result {
    let shape = &cx.out(0).shape;
    let size = product(shape);
    let numbers = indices::range(cx, &size)?;
    let numbers = cx.reshape(numbers, shape)?;
    if matches!(size, Dim::Known(n) if n <= 1 << 32) {
        let high = cx.full(DType::U32, 0.0, shape)?;
        return Ok(vec![high, cx.cast(numbers, DType::U32)?]);
    }
    let [low, high] = formulas(cx, [numbers], |[x]| halves(x.cast(DType::U64)))?;
    Ok(vec![high, low])
}
