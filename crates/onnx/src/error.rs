//! The one error type of this crate.

use std::path::PathBuf;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with a graph or a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operator was given inputs or attributes that it does not accept.
    #[error("{op}: {reason}")]
    Invalid {
        /// The operator.
        op: String,
        /// What is wrong.
        reason: String,
    },
    /// The graph breaks an invariant.
    #[error("invalid graph: {0}")]
    Graph(String),
    /// The text of a model cannot be read.
    #[error("{line}:{column}: {reason}")]
    Text {
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl Error {
    /// An operator's complaint.
    pub fn invalid(op: &str, reason: impl Into<String>) -> Self {
        Error::Invalid { op: op.to_owned(), reason: reason.into() }
    }
}
