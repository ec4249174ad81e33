//! ne(x, y) → Not(Equal(x, y))

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let equal = cx.op("Equal", x, Attrs::new())?;
    Ok(vec![cx.op("Not", &[equal], Attrs::new())?])
}
