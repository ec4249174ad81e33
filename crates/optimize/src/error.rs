//! The one error type of this crate: a bug in this project, and whose.

use provenance::OriginId;
use tensor::Type;

/// The optimiser failed. No input is to blame: a rewrite is wrong, or the graph was invalid before.
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
    /// A node was emitted that cannot be.
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
    /// There are more or fewer values than the node that was replaced has results.
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
    #[error("goes round in circles with others")]
    Endless,
}
