//! Why a command did not work.

use std::io;
use std::path::PathBuf;

use pipeline::RecordingError;
use provenance::SourceMapError;

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It did what it was asked to.
    Yes = 0,
    /// The answer is no: nothing was found, or the models differ.
    No = 1,
    /// It failed.
    Trouble = 2,
}

/// A failure, as shown to the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A model cannot be read.
    #[error("{}: {error}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// Why.
        error: onnx_file::Error,
    },
    /// A source map cannot be read.
    #[error("{}: {error}", path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// Why.
        error: SourceMapError,
    },
    /// A recorded program cannot be read.
    #[error("{}: {error}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Why.
        error: RecordingError,
    },
    /// Another file cannot be read or written.
    #[error("{}: {}", path.display(), without_number(error))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The request does not fit the model.
    #[error("{0}")]
    Request(String),
    /// The model does not have what was asked for.
    #[error("{0}")]
    Absent(String),
    /// The terminal cannot be written to.
    #[error("cannot write the output: {}", without_number(.0))]
    Output(io::Error),
}

impl Failure {
    /// The exit status after it.
    pub(crate) fn status(&self) -> Status {
        match self {
            Failure::Absent(_) => Status::No,
            _ => Status::Trouble,
        }
    }

    /// The failure of a model. Errors of the operating system name their own file.
    pub(crate) fn model(path: PathBuf, error: onnx_file::Error) -> Self {
        match error {
            onnx_file::Error::Io { path, source } => Failure::Io { path, error: source },
            error => Failure::Model { path, error },
        }
    }
}

/// What the operating system says, without the number of the error.
pub fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
