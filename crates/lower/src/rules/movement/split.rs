//! split[sizes, axis](x) → Split(x)

use onnx::{ValueId, attrs};
use tensor::Dim;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let sizes: Vec<Dim> = cx.param("sizes")?;
    let axis: i64 = cx.param("axis")?;
    let count = sizes.len();
    let sizes = cx.dims(&sizes)?;
    Ok(cx.op_many("Split", &[x[0], sizes], attrs! { axis: axis }, count)?)
}
