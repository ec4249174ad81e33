//! debug_callback, debug_print → nothing: a model does not print

use crate::{Context, Parts, Result};

pub(crate) fn lower(_: &mut Context<'_>, _: &[Parts]) -> Result<Vec<Parts>> {
    Ok(Vec::new())
}
