//! pow(x, y) → Pow(x, y); an integer y is rounded to the type of x first, as in JAX

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    let exponent = cx.cast(x[1], dtype)?;
    Ok(vec![cx.op("Pow", &[x[0], exponent], Attrs::new())?])
}
