//! select_and_gather_add(tangents, x) → Gather of the tangents at the positions that MaxPool finds

use onnx::{ValueId, attrs};
use tensor::Dim;

use super::select_and_scatter_add::flat;
use super::window::Window;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (tangents, array) = (x[0], x[1]);
    let out = cx.out(0);
    if out.shape.contains(&Dim::Known(0)) {
        return Ok(vec![cx.full(out.dtype, 0.0, &out.shape)?]);
    }
    let window = Window::read(&cx.eqn().params)?;
    let (layout, places) = window.places_of_extrema(cx, array)?;
    let tangents = layout.enter(cx, tangents)?;
    let tangents = flat(cx, tangents)?;
    let selected = cx.op("Gather", &[tangents, places], attrs! { axis: 0 })?;
    let shape = cx.shape(array).to_vec();
    Ok(vec![layout.leave(cx, selected, &shape)?])
}
