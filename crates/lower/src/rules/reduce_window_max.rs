//! reduce_window_max → MaxPool, or Max of shifted slices; onnxruntime's MaxPool ignores NaN and
//! replaces minus infinity by the smallest finite number

use super::Result;
use super::monoid::Monoid;
use super::window::Window;
use crate::{Context, Parts};

pub(super) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![Window::read(cx)?.reduce(cx, x[0].into(), Monoid::Max)?.into()])
}
