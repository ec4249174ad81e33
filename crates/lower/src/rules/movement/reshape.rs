//! reshape[new_sizes](x) → Reshape(x)

use onnx::ValueId;

use crate::Context;
use crate::rules::Result;

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let order: Option<Vec<usize>> = cx.param_or("dimensions", None)?;
    let value = match order {
        Some(order) => cx.transpose(x[0], &order)?,
        None => x[0],
    };
    let shape = cx.out(0).shape.clone();
    Ok(vec![cx.reshape(value, &shape)?])
}
