//! Rules from outside this crate, such as those that users write.

use std::fmt::Debug;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{Context, Parts, RuleError};

/// An external rule. Its results are checked like those of every rule.
pub trait ExternalRule: Debug + Send + Sync {
    /// The emitter that is recorded for its nodes.
    fn name(&self) -> &'static str;

    /// Emits the nodes of the equation that `cx` is at, and returns its results.
    fn lower(&self, cx: &mut Context<'_>, inputs: &[Parts]) -> Result<Vec<Parts>, RuleError>;
}

/// Rules by their primitive. They take precedence over the rules of this crate.
pub type ExternalRules = FxHashMap<Arc<str>, Box<dyn ExternalRule>>;
