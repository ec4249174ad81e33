//! Failures and exit statuses of commands.

use std::fmt::Display;
use std::io;
use std::path::Path;

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
    /// A file cannot be read or written, or the request is invalid or does not fit the model.
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

    /// Creates the failure for a file.
    pub(crate) fn file(path: &Path, why: impl Display) -> Self {
        Self::Request(format!("{}: {why}", path.display()))
    }

    /// Returns the conversion of an error of the operating system about a file.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        |error| Self::file(path, without_number(&error))
    }

    /// Returns the conversion of an error about a model. Errors of the operating system name their
    /// own file.
    pub(crate) fn model(path: &Path) -> impl Fn(onnx_file::Error) -> Self {
        |error| match error {
            onnx_file::Error::Io { path, source } => Self::io(&path)(source),
            error => Self::file(path, error),
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
