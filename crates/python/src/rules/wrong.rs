//! Mistakes of rules written in Python, on their way through Python.

use std::sync::PoisonError;

use lower::RuleError;
use pipeline::Family;
use provenance::Diagnostic;
use pyo3::prelude::*;

use super::Shared;
use crate::error::raise;

pub(super) type Result<T> = std::result::Result<T, Wrong>;

/// The reason that a rule's request failed.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The rule passed something invalid.
    Given(String),
    /// An equation of a jaxpr that the rule inlined cannot be lowered, or a built-in rule failed.
    Rule(RuleError),
    /// Something that the rule passed raised an exception.
    Python(PyErr),
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Wrong::Given(reason)
    }
}

impl From<PyErr> for Wrong {
    fn from(error: PyErr) -> Self {
        Wrong::Python(error)
    }
}

impl From<onnx::Error> for Wrong {
    fn from(error: onnx::Error) -> Self {
        Wrong::Given(error.to_string())
    }
}

impl From<RuleError> for Wrong {
    fn from(error: RuleError) -> Self {
        match error {
            RuleError::External(reason) => Wrong::Given(reason),
            other => Wrong::Rule(other),
        }
    }
}

impl Wrong {
    /// Returns the exception for the rule. If the rule does not catch it, its cause is found in
    /// `shared`.
    pub(super) fn raise(self, py: Python<'_>, shared: &Shared) -> PyErr {
        let (family, message, help) = match &self {
            Wrong::Python(error) => return error.clone_ref(py),
            Wrong::Given(reason) => (Family::InvalidInput, reason.clone(), None),
            Wrong::Rule(RuleError::Unsupported { reason, help }) => {
                (Family::Unsupported, reason.clone(), help.clone())
            }
            Wrong::Rule(error) => (Family::Internal, error.to_string(), None),
        };
        let diagnostic = Diagnostic { code: "wrong-rule", message, places: Vec::new(), help };
        let raised = raise(py, family, &diagnostic);
        if let Wrong::Rule(error) = self {
            let mut inner = shared.inner.lock().unwrap_or_else(PoisonError::into_inner);
            *inner = Some((raised.value(py).clone().into_any().unbind(), error));
        }
        raised
    }
}
