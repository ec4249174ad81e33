//! The error type of this crate, which always indicates a bug in a rewrite or pass.

use provenance::OriginId;
use tensor::Type;

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
    /// A value was replaced by one of another type.
    #[error("replaced a value of type {old} by one of type {new}")]
    Type {
        /// The type of the value that was replaced.
        old: Type,
        /// The type of its replacement.
        new: Type,
    },
    /// The number of values differs from the number of results of the replaced node.
    #[error("replaced {old} results by {new}")]
    Count {
        /// The results of the node.
        old: usize,
        /// The values returned.
        new: usize,
    },
    /// A pattern cannot be parsed.
    #[error("has a pattern that cannot be read: {0}")]
    Pattern(&'static str),
    /// Rewrites undo each other's changes.
    #[error("does not reach a fixed point with other rewrites")]
    Endless,
}
