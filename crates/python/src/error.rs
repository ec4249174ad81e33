//! The boundary to Python: every Rust error becomes a diagnostic, and every diagnostic an
//! exception.

use std::sync::Arc;

use pipeline::{Family, Places, REPORT};
use provenance::{Detail, Diagnostic, FrameKind, Origins, SourceLocation, StackId, Stacks};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::read::{FailedRead, LoadedTexts};

/// An error while reading a jaxpr.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// An element type that does not exist in ONNX.
    #[error("the element type `{0}` does not exist in ONNX")]
    DType(String),
    /// A dimension that is too large for ONNX.
    #[error("the dimension {0} is too large for ONNX")]
    Dimension(String),
    /// A value that is not an array, such as a reference or a token.
    #[error("a value of type `{0}` is not an array and cannot be part of an ONNX model")]
    NoArray(String),
    /// An equation that JAX itself cannot expand to others.
    #[error("`{primitive}`: {reason}")]
    Expansion {
        /// The primitive.
        primitive: Arc<str>,
        /// JAX's reason.
        reason: String,
    },
    /// A jaxpr with an unexpected structure.
    #[error("the jaxpr cannot be read: {0}")]
    Malformed(String),
    /// An exception on the Python side.
    #[error(transparent)]
    Python(#[from] PyErr),
    /// Any of these errors, at an equation.
    #[error("{error}")]
    At {
        /// The error.
        error: Box<ReadError>,
        /// The equation's stack.
        stack: StackId,
    },
}

impl ReadError {
    /// Adds the equation's stack, if it is known.
    pub(crate) fn at(self, stack: Option<StackId>) -> Self {
        match stack {
            Some(stack) => ReadError::At { error: Box::new(self), stack },
            None => self,
        }
    }
}

/// Raises a diagnostic without source lines of the user's files as an exception of its family.
pub(crate) fn raise(py: Python<'_>, family: Family, diagnostic: &Diagnostic) -> PyErr {
    raise_at(py, family, diagnostic, &LoadedTexts::default())
}

/// Raises a diagnostic as an exception of its family.
pub(crate) fn raise_at(
    py: Python<'_>,
    family: Family,
    diagnostic: &Diagnostic,
    texts: &LoadedTexts,
) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let class = py.import("jax2onnx.errors")?.getattr(family.class_name())?;
        let place = texts.render(py, diagnostic);
        let help = diagnostic.help.as_deref().unwrap_or_default();
        let error = class.call1((diagnostic.code, &diagnostic.message, place, help))?;
        Ok(PyErr::from_value(error))
    };
    build().unwrap_or_else(|error| error)
}

/// Returns the exception for a failed read.
pub(crate) fn reading(py: Python<'_>, failed: FailedRead) -> PyErr {
    let FailedRead { error, stacks, texts } = failed;
    let (error, places) = match error {
        ReadError::At { error, stack } => {
            let frame = stacks.frames(stack).find(|f| f.kind == FrameKind::User);
            let place =
                frame.or_else(|| stacks.frames(stack).next()).map(|f| SourceLocation::new(f, ""));
            (*error, place.into_iter().collect())
        }
        other => (other, Vec::new()),
    };
    let message = error.to_string();
    let (family, code, help) = match error {
        ReadError::Python(error) => return error,
        ReadError::At { error, .. } => {
            return reading(py, FailedRead { error: *error, stacks, texts });
        }
        ReadError::DType(_) => (Family::Unsupported, "unsupported-dtype", None),
        ReadError::Dimension(_) => (Family::Unsupported, "unsupported-dimension", None),
        ReadError::NoArray(_) => (Family::Unsupported, "unsupported-value", None),
        ReadError::Expansion { .. } => (Family::Unsupported, "unsupported-equation", None),
        ReadError::Malformed(_) => (Family::Internal, "unexpected-jaxpr", Some(REPORT.to_owned())),
    };
    raise_at(py, family, &Diagnostic { code, message, places, help }, &texts)
}

/// Returns the exception for a failed write.
pub(crate) fn writing(py: Python<'_>, error: onnx_file::Error) -> PyErr {
    let onnx_file::Error::Io { path, source } = error else {
        let (origins, mut stacks) = (Origins::default(), Stacks::default());
        let mut places = Places { origins: &origins, stacks: &mut stacks, resolve: &|_, _| {} };
        let (family, diagnostic) = places.diagnose(error.into());
        return raise(py, family, &diagnostic);
    };
    if source.kind() == std::io::ErrorKind::InvalidData {
        // The problem is not the file, but the data that is written to it.
        return writing(py, onnx_file::Error::contents(source));
    }
    let path = path.display().to_string();
    let reason = cli::without_number(&source);
    match source.raw_os_error() {
        // With an errno, Python raises the subclass that programs catch, such as PermissionError.
        Some(errno) => PyOSError::new_err((errno, reason, path)),
        None => PyOSError::new_err(format!("{path}: {reason}")),
    }
}

/// Returns the exception for an unknown precision.
pub(crate) fn precision(py: Python<'_>, text: &str) -> PyErr {
    let diagnostic = Diagnostic {
        code: "invalid-option",
        message: format!("models cannot compute in {text:?}"),
        places: vec![],
        help: Some("precisions are float16, bfloat16 and float32".to_owned()),
    };
    raise(py, Family::InvalidInput, &diagnostic)
}

/// Returns the exception for an unknown weight format.
pub(crate) fn format(py: Python<'_>, text: &str) -> PyErr {
    let diagnostic = Diagnostic {
        code: "invalid-option",
        message: format!("weights cannot be stored as {text:?}"),
        places: vec![],
        help: Some(FORMATS.to_owned()),
    };
    raise(py, Family::InvalidInput, &diagnostic)
}

const FORMATS: &str = "formats are float16, bfloat16, int4, uint4, int8, uint8 and keep; integers may have a block size, a power of two from 16 on: int4:64; of several, such as int4,float16, the first suitable one is taken";

/// Parses the detail level that Python passes.
pub(crate) fn detail(py: Python<'_>, word: &str) -> PyResult<Detail> {
    word.parse().map_err(|error: provenance::DetailError| {
        let diagnostic = Diagnostic {
            code: "invalid-option",
            message: error.to_string(),
            places: vec![],
            help: None,
        };
        raise(py, Family::InvalidInput, &diagnostic)
    })
}
