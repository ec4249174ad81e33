//! The error type of this crate.

use std::io;
use std::path::{Path, PathBuf};

use provenance::OriginId;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error while reading or writing a model file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The graph cannot be written.
    #[error(transparent)]
    Onnx(#[from] onnx::Error),
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
        /// The origin of a node in the innermost graph, for a model that is being written.
        origin: Option<OriginId>,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error that the operating system reported.
        source: io::Error,
    },
}

impl Error {
    /// Returns the error for a graph that breaks an invariant.
    pub(crate) fn graph(reason: impl Into<String>) -> Self {
        onnx::Error::Graph(reason.into()).into()
    }

    /// Returns a function that returns the error for the file at `path`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| Error::Io { path: path.to_owned(), source }
    }

    /// Returns the error for a tensor whose contents could not be fetched or computed.
    pub fn contents(source: io::Error) -> Self {
        onnx::Error::Contents(source).into()
    }
}

/// Returns the I/O error for something that cannot be saved or read as a file.
pub(crate) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.into())
}
