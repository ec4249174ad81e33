//! rem(x, y) → Mod(x, y, fmod=1): the remainder has the sign of x

use onnx::{ValueId, attrs};

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    Ok(vec![cx.op("Mod", x, attrs! { fmod: 1 })?])
}
