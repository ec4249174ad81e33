//! The one error type of this crate.

use std::path::PathBuf;

use provenance::OriginId;

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
    /// A node does not exist at the requested opset.
    #[error("opset {given} is too old: `{op}` needs opset {needs}{}", because(reason.as_deref()))]
    OpsetTooOld {
        /// The operator, or the element type.
        op: String,
        /// The first opset that has it.
        needs: i64,
        /// The requested opset.
        given: i64,
        /// What is too new about it, if it is not the operator itself.
        reason: Option<String>,
        /// Where the node came from.
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
    /// The bytes are not a model.
    #[error("not an ONNX model, or damaged: {0}")]
    Read(String),
    /// The model does not fit into one protobuf message.
    #[error(
        "the model takes {0} bytes in one file, which is more than protobuf's limit of 2 GiB; \
         save it with external data"
    )]
    TooLarge(u64),
    /// Subgraphs are nested more deeply than protobuf readers allow.
    #[error(
        "graphs are nested too deeply: protobuf readers allow 100 nested messages, or about 30 nested \
         conditions and loops"
    )]
    TooDeep {
        /// Where a node of the innermost graph came from, for a model that is being written.
        origin: Option<OriginId>,
    },
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
    /// The contents of a tensor could not be fetched or computed.
    #[error("{0}")]
    Contents(std::io::Error),
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

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
}
