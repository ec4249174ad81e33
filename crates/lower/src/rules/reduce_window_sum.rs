//! reduce_window_sum → AveragePool times the window's size, or Add of shifted slices

use onnx::ValueId;

use super::Result;
use super::monoid::Monoid;
use super::window::Window;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    Ok(vec![Window::read(cx)?.reduce(cx, x[0], Monoid::Add)?])
}
