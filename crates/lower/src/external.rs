//! External rules, such as those that users write.

use std::fmt::Debug;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{Context, Parts, Result};

/// An external rule. Its results are checked like those of every rule.
pub trait ExternalRule: Debug + Send + Sync {
    /// Returns the name of the emitter that is recorded for its nodes.
    fn name(&self) -> &'static str;

    /// Emits the nodes of the current equation of `cx`, and returns its results.
    fn lower(&self, cx: &mut Context<'_>, inputs: &[Parts]) -> Result<Vec<Parts>>;
}

/// Rules by their primitive. They take precedence over the rules of this crate.
pub type ExternalRules = FxHashMap<Arc<str>, Box<dyn ExternalRule>>;
