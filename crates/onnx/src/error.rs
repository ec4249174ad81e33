//! The error type of this crate.

use provenance::OriginId;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error in a graph.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operator was given inputs or attributes that it does not accept.
    #[error("{op}: {reason}")]
    Invalid {
        /// The operator.
        op: String,
        /// The reason.
        reason: String,
    },
    /// A node does not exist at the requested opset.
    #[error("opset {given} is too old: `{op}` needs opset {needs}{}", because(reason.as_deref()))]
    OpsetTooOld {
        /// The operator, or the element type.
        op: String,
        /// The first opset that contains it.
        needs: i64,
        /// The requested opset.
        given: i64,
        /// The part that is too new, if it is not the operator itself.
        reason: Option<String>,
        /// The origin of the node.
        origin: Option<OriginId>,
    },
    /// Models cannot be written for the requested opset.
    #[error("opset {given} is not supported; choose one from {oldest} to {newest}")]
    OpsetUnsupported {
        /// The requested opset.
        given: i64,
        /// The oldest supported one.
        oldest: i64,
        /// The newest supported one.
        newest: i64,
    },
    /// The graph breaks an invariant.
    #[error("invalid graph: {0}")]
    Graph(String),
    /// The results of a node were replaced by values of other types, or by too many or too few.
    #[error("replaced {0}")]
    Replaced(String),
    /// The text of a model cannot be parsed.
    #[error("{line}:{column}: {reason}")]
    Text {
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        /// The reason.
        reason: String,
    },
    /// The contents of a tensor could not be fetched or computed.
    #[error("{0}")]
    Contents(std::io::Error),
}

impl Error {
    /// Returns the error for inputs or attributes that the operator `op` does not accept.
    pub fn invalid(op: &str, reason: impl Into<String>) -> Self {
        Error::Invalid { op: op.to_owned(), reason: reason.into() }
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
}
