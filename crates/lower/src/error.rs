//! Errors of lowering.

use std::sync::Arc;

use onnx::ValueId;
use provenance::{CallId, ScopeId};

/// The result of a rule: the equation's values, unless it says otherwise.
pub(crate) type Result<T = Vec<ValueId>, E = RuleError> = std::result::Result<T, E>;

/// A rule's own error, without a position, which the driver adds.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// The equation has no ONNX form, or none that this converter knows.
    #[error("{reason}")]
    Unsupported {
        /// A description of the unsupported case, in the user's terms.
        reason: String,
        /// A suggestion for the user.
        help: Option<String>,
    },
    /// The rule is wrong.
    #[error("{0}")]
    Internal(String),
    /// An external rule failed or returned something wrong.
    #[error("{0}")]
    External(String),
    /// The error of an inner equation.
    #[error(transparent)]
    Inner(Box<Error>),
}

impl RuleError {
    /// Creates an error about an unsupported case.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        RuleError::Unsupported { reason: reason.into(), help: None }
    }

    /// Adds a suggestion for the user.
    #[must_use]
    pub(crate) fn with_help(self, text: impl Into<String>) -> Self {
        match self {
            RuleError::Unsupported { reason, .. } => {
                RuleError::Unsupported { reason, help: Some(text.into()) }
            }
            other => other,
        }
    }
}

impl From<onnx::Error> for RuleError {
    fn from(error: onnx::Error) -> Self {
        RuleError::Internal(error.to_string())
    }
}

impl From<jaxpr::ParamError> for RuleError {
    fn from(error: jaxpr::ParamError) -> Self {
        RuleError::Internal(error.to_string())
    }
}

impl From<Error> for RuleError {
    fn from(error: Error) -> Self {
        RuleError::Inner(Box::new(error))
    }
}

/// An occurrence of a primitive without a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The primitive.
    pub primitive: Arc<str>,
    /// The equation.
    pub call: CallId,
    /// The module that it belongs to.
    pub scope: ScopeId,
}

/// An error of lowering.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// All primitives of the program without a rule.
    #[error("no ONNX lowering for {}", names(.0))]
    MissingRules(Vec<Missing>),
    /// An equation that cannot be lowered.
    #[error("`{primitive}`: {reason}")]
    Equation {
        /// The primitive.
        primitive: Arc<str>,
        /// A description of the unsupported case or the mistake.
        reason: String,
        /// The cause.
        fault: Fault,
        /// The equation.
        call: CallId,
        /// The module that it belongs to.
        scope: ScopeId,
    },
    /// The model's boundary cannot be built.
    #[error("{0}")]
    Boundary(String),
}

/// The reason that an equation cannot be lowered.
#[derive(Debug)]
pub enum Fault {
    /// Its rule does not support it. There may be a suggestion for the user.
    Unsupported(Option<String>),
    /// Its rule is wrong.
    Rule,
    /// Its external rule failed or returned something wrong.
    External,
}

fn names(missing: &[Missing]) -> String {
    let mut names: Vec<_> = missing.iter().map(|m| format!("`{}`", m.primitive)).collect();
    names.sort();
    names.dedup();
    names.join(", ")
}
