//! The error type of this crate, which always indicates a bug in a rewrite or pass.

use provenance::OriginId;

/// A failure of the optimiser. It is never caused by the user's input: a rewrite is wrong, or the
/// graph was already invalid.
#[derive(Debug, thiserror::Error)]
#[error("`{rewrite}` {problem}")]
pub struct Error {
    /// The rewrite or pass that failed.
    pub rewrite: &'static str,
    /// The origin of the node that it was working on.
    pub origin: Option<OriginId>,
    /// The problem.
    #[source]
    pub problem: Problem,
}

/// A problem in a rewrite or pass.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The verifier rejects the graph.
    #[error("made the graph invalid: {0}")]
    Invalid(#[source] onnx::Error),
    /// An invalid node was emitted.
    #[error("emitted an invalid node: {0}")]
    Node(#[source] onnx::Error),
    /// The results of a node were replaced by values of other types, or by too many or too few.
    #[error("{0}")]
    Replaced(#[source] onnx::Error),
    /// A pattern cannot be parsed.
    #[error("has a pattern that cannot be read: {0}")]
    Pattern(&'static str),
    /// Rewrites undo each other's changes.
    #[error("does not reach a fixed point with other rewrites")]
    Endless,
}

impl From<onnx::Error> for Problem {
    fn from(error: onnx::Error) -> Self {
        match error {
            onnx::Error::Replaced(_) => Problem::Replaced(error),
            _ => Problem::Node(error),
        }
    }
}
