//! tile[reps](x) → Tile(x)

use onnx::{Attrs, ValueId};
use tensor::Dim;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let repeats: Vec<Dim> = cx.param("reps")?;
    let repeats = cx.dims(&repeats)?;
    Ok(vec![cx.op("Tile", &[x[0], repeats], Attrs::new())?])
}
