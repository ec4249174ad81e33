//! reduce_window_sum → AveragePool times the window's size, or Add of shifted slices

use super::Result;
use super::monoid::Monoid;
use super::window::Window;
use crate::{Context, Parts};

pub(super) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![Window::read(cx)?.reduce(cx, x[0].into(), Monoid::Add)?.into()])
}
