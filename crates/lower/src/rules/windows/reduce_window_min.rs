//! reduce_window_min → Min of shifted slices

use super::window::Window;
use crate::rules::reduction::monoid::Monoid;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![Window::read(&cx.eqn().params)?.reduce(cx, x[0], Monoid::Min)?])
}
