//! Rules that come from outside of this crate, such as those that users write.

use std::fmt::Debug;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{Context, Parts, RuleError};

/// A rule from outside. What it returns is checked like what every rule returns.
pub trait ExternalRule: Debug + Send + Sync {
    /// What its nodes say they were emitted by.
    fn name(&self) -> &'static str;

    /// Emits the nodes of the equation that `cx` is at, and returns its results.
    fn lower(&self, cx: &mut Context<'_>, inputs: &[Parts]) -> Result<Vec<Parts>, RuleError>;
}

/// Rules by the primitive they are for. They come before the rules of this crate.
pub type ExternalRules = FxHashMap<Arc<str>, Box<dyn ExternalRule>>;
