//! debug_callback, debug_print → nothing: a model does not print

use crate::rules::Result;
use crate::{Context, Parts};

pub(crate) fn lower(_: &mut Context<'_>, _: &[Parts]) -> Result<Vec<Parts>> {
    Ok(Vec::new())
}
