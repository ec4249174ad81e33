//! The one error type of this crate: a bug in a rewrite or pass.

use provenance::OriginId;

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
    /// The results of a node were replaced by something else.
    #[error("{0}")]
    Replaced(#[source] onnx::Error),
    /// The patterns cannot be read.
    #[error("has a pattern that cannot be read: {0}")]
    Pattern(&'static str),
    /// Rewrites undo each other's work.
    #[error("goes in circles with other rewrites")]
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
