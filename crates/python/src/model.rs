//! A converted model, as Python holds it.

use std::path::PathBuf;
use std::sync::Arc;

use onnx::Placement;
use provenance::Diagnostic;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{Family, raise, writing};

/// A converted model. Its weights are views of the arrays that JAX has.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Model(Arc<onnx::Model>);

impl Model {
    pub(crate) fn new(model: onnx::Model) -> Self {
        Self(Arc::new(model))
    }
}

#[pymethods]
impl Model {
    /// Writes the model to `path`; `placement` says where large weights go: "auto", "inline" or
    /// "external".
    #[expect(clippy::needless_pass_by_value, reason = "what PyO3 extracts is owned")]
    fn save(&self, py: Python<'_>, path: PathBuf, placement: &str) -> PyResult<()> {
        let placement = match placement {
            "auto" => Placement::Auto,
            "inline" => Placement::Inline,
            "external" => Placement::External,
            other => {
                let diagnostic = Diagnostic {
                    code: "invalid-option",
                    message: format!(
                        "unknown placement `{other}`; there are: auto, inline, external"
                    ),
                    places: vec![],
                    help: None,
                };
                return Err(raise(py, Family::InvalidInput, &diagnostic));
            }
        };
        py.detach(|| self.0.save(&path, placement)).map_err(|error| writing(py, error))
    }

    /// The whole model as the bytes of a `ModelProto`.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.to_bytes()).map_err(|error| writing(py, error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The bytes of the `ModelProto` without the contents of large tensors.
    fn skeleton<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.skeleton()))
    }

    /// The names and contents of the tensors that `skeleton` leaves out, one after the other.
    fn tensors(&self) -> Tensors {
        Tensors { model: Arc::clone(&self.0), next: 0 }
    }
}

/// The large tensors of a model.
#[pyclass(module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Tensors {
    model: Arc<onnx::Model>,
    next: usize,
}

#[pymethods]
impl Tensors {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Option<(String, Bound<'py, PyBytes>)> {
        let (name, bytes) = self.model.tensors().nth(self.next)?;
        self.next += 1;
        Some((name.to_owned(), PyBytes::new(py, bytes)))
    }
}
