//! select_and_scatter_add(source, x) → ScatterElements of the source to the positions that MaxPool
//! finds

use onnx::{ValueId, attrs};
use tensor::Dim;
use tensor::division::product;

use super::window::Window;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (source, array) = (x[0], x[1]);
    let shape = cx.shape(array).to_vec();
    if shape.contains(&Dim::Known(0)) || cx.shape(source).contains(&Dim::Known(0)) {
        return Ok(vec![cx.full(cx.dtype(source), 0.0, &shape)?]);
    }
    let window = Window::read(&cx.eqn().params)?;
    let (layout, places) = window.places_of_extrema(cx, array)?;
    let source = layout.enter(cx, source)?;
    let (places, source) = (flat(cx, places)?, flat(cx, source)?);
    let space = layout.shape(&shape);
    let zeros = cx.full(cx.dtype(source), 0.0, &[product(&space)])?;
    let sums =
        cx.op("ScatterElements", &[zeros, places, source], attrs! { axis: 0, reduction: "add" })?;
    let sums = cx.reshape(sums, &space)?;
    Ok(vec![layout.leave(cx, sums, &shape)?])
}

/// Flattens `value` to a vector.
pub(crate) fn flat(cx: &mut Context<'_>, value: ValueId) -> Result<ValueId> {
    cx.reshape(value, &[product(cx.shape(value))])
}
