//! The one error type of this crate: a bug in a rewrite or pass.

use provenance::OriginId;
use tensor::Type;

/// The optimiser failed. This is never the input's fault: a rewrite is wrong, or the graph was
/// already invalid.
#[derive(Debug, thiserror::Error)]
#[error("`{rewrite}` {problem}")]
pub struct Error {
    /// The rewrite or pass at work.
    pub rewrite: &'static str,
    /// What it was working on.
    pub origin: Option<OriginId>,
    /// What went wrong.
    #[source]
    pub problem: Problem,
}

/// What can go wrong in a rewrite or pass.
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
    /// The patterns cannot be read.
    #[error("has a pattern that cannot be read: {0}")]
    Pattern(&'static str),
    /// Rewrites undo each other's work.
    #[error("goes in circles with other rewrites")]
    Endless,
}
