//! Failures and exit statuses of commands.

use std::io;
use std::path::PathBuf;

use pipeline::RecordingError;
use provenance::SourceMapError;

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The command succeeded.
    Yes = 0,
    /// The answer is no: nothing was found, or the models differ.
    No = 1,
    /// The command failed.
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
        /// The cause.
        error: onnx_file::Error,
    },
    /// A source map cannot be read.
    #[error("{}: {error}", path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: SourceMapError,
    },
    /// A recorded program cannot be read.
    #[error("{}: {error}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: RecordingError,
    },
    /// Another file cannot be read or written.
    #[error("{}: {}", path.display(), without_number(error))]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The request is invalid, or does not fit the model.
    #[error("{0}")]
    Request(String),
    /// The model does not contain the requested item.
    #[error("{0}")]
    Absent(String),
    /// The output cannot be written.
    #[error("cannot write the output: {}", without_number(.0))]
    Output(io::Error),
}

impl Failure {
    /// Returns the exit status of the failure.
    pub(crate) fn status(&self) -> Status {
        match self {
            Failure::Absent(_) => Status::No,
            _ => Status::Trouble,
        }
    }

    /// Creates the failure for a model. Errors of the operating system name their own file.
    pub(crate) fn model(path: PathBuf, error: onnx_file::Error) -> Self {
        match error {
            onnx_file::Error::Io { path, source } => Failure::Io { path, error: source },
            error => Failure::Model { path, error },
        }
    }
}

/// Returns the operating system's message without the error number.
pub fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
