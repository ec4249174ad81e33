//! A converted model, held by Python.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onnx_file::{GoOn, Pending, Placement, Saving, Set};
use pipeline::Family;
use provenance::Diagnostic;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::error::{raise, writing};
use crate::results::Results;

/// The maximum delay of Ctrl-C while a model is written.
const PATIENCE: Duration = Duration::from_millis(50);

/// A converted model. Its weights are views of JAX's arrays.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Model {
    model: Arc<onnx_file::Model>,
    map: Option<String>,
    results: Option<Py<Results>>,
    missed: Vec<String>,
    written: AtomicU64,
    fallbacks: Vec<String>,
    unmatched: Vec<(&'static str, String)>,
    weights: Vec<Weight>,
    applied: BTreeMap<&'static str, u64>,
}

/// The name of a parameter, its type and bytes, its format if it has one, the stored bytes, and the
/// reason.
type Weight = (String, &'static str, usize, Option<String>, usize, String);

impl Model {
    pub(crate) fn new(model: onnx_file::Model, map: Option<String>) -> Self {
        Self {
            model: Arc::new(model),
            map,
            results: None,
            missed: Vec::new(),
            fallbacks: Vec::new(),
            unmatched: Vec::new(),
            weights: Vec::new(),
            applied: BTreeMap::new(),
            written: 0.into(),
        }
    }

    /// Adds the descriptions of operators that were nearly recognised.
    pub(crate) fn with_missed(self, missed: Vec<String>) -> Self {
        Self { missed, ..self }
    }

    /// Adds the nodes that the target leaves to the CPU.
    pub(crate) fn with_fallbacks(self, fallbacks: Vec<String>) -> Self {
        Self { fallbacks, ..self }
    }

    /// Adds the patterns that match nothing.
    pub(crate) fn with_unmatched(self, unmatched: pipeline::Unmatched) -> Self {
        let compute = unmatched.compute.into_iter().map(|pattern| ("compute", pattern));
        let weights = unmatched.weights.into_iter().map(|pattern| ("weights", pattern));
        Self { unmatched: compute.chain(weights).collect(), ..self }
    }

    /// Adds the storage of weights.
    pub(crate) fn with_weights(self, weights: Vec<pipeline::Weight>) -> Self {
        let row = |weight: pipeline::Weight| {
            let format = weight.format.map(optimize::weights::Format::to_text);
            let from = weight.from.numpy_name();
            (weight.name, from, weight.bytes, format, weight.stored, weight.reason)
        };
        Self { weights: weights.into_iter().map(row).collect(), ..self }
    }

    /// Adds the number of changes by each rewrite and pass.
    pub(crate) fn with_applied(self, applied: BTreeMap<&'static str, u64>) -> Self {
        Self { applied, ..self }
    }

    /// Adds the values of the equations.
    pub(crate) fn with_results(self, py: Python<'_>, results: Results) -> PyResult<Self> {
        Ok(Self { results: Some(Py::new(py, results)?), ..self })
    }
}

#[pymethods]
impl Model {
    /// Writes the model to `path`. `placement` selects the location of large weights: "auto",
    /// "inline" or "external".
    fn save(&self, py: Python<'_>, path: PathBuf, placement: &str) -> PyResult<()> {
        let placement = match placement {
            "auto" => Placement::Auto,
            "inline" => Placement::Inline,
            "external" => Placement::External,
            other => {
                let diagnostic = Diagnostic {
                    code: "invalid-option",
                    message: format!(
                        "unknown placement `{other}`; choose auto, inline or external"
                    ),
                    places: vec![],
                    help: None,
                };
                return Err(raise(py, Family::InvalidInput, &diagnostic));
            }
        };
        let save = |go_on: &mut GoOn<'_>| self.model.save_while(&path, placement, go_on);
        while_not_interrupted(py, &self.written, save)
    }

    /// The size of the model in bytes, including its weights.
    #[getter]
    fn size(&self) -> u64 {
        self.model.size()
    }

    /// The number of bytes that `save` has written so far. Another thread may read it while `save`
    /// runs.
    #[getter]
    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns the whole model as the bytes of a `ModelProto`.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.model.to_bytes()).map_err(|error| writing(py, error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the bytes of the `ModelProto` without the contents of large tensors.
    fn skeleton<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.model.skeleton()))
    }

    /// Writes the text of the source map. It is at `path` when the result is finished.
    fn write_source_map(&self, py: Python<'_>, path: PathBuf) -> PyResult<PendingFile> {
        let text = self.map.as_deref().unwrap_or_default().as_bytes();
        py.detach(|| Pending::write(&path, |file| file.write_all(text)))
            .map(|pending| PendingFile(Some(pending)))
            .map_err(|error| writing(py, error))
    }

    /// The values of the equations, if they were recorded.
    #[getter]
    fn results(&self, py: Python<'_>) -> Option<Py<Results>> {
        self.results.as_ref().map(|results| results.clone_ref(py))
    }

    /// The operators that were nearly recognised, with the reasons, if requested.
    #[getter]
    fn missed(&self) -> Vec<String> {
        self.missed.clone()
    }

    /// The nodes that the target does not run on its GPU, and their source lines.
    #[getter]
    fn fallbacks(&self) -> Vec<String> {
        self.fallbacks.clone()
    }

    /// The patterns that match nothing and their options, for a model in a set.
    #[getter]
    fn unmatched(&self) -> Vec<(&'static str, String)> {
        self.unmatched.clone()
    }

    /// The storage of each parameter, if formats were requested.
    #[getter]
    fn weights(&self) -> Vec<Weight> {
        self.weights.clone()
    }

    /// The number of changes by each rewrite and pass of the optimiser.
    #[getter]
    fn applied(&self) -> BTreeMap<&'static str, u64> {
        self.applied.clone()
    }

    /// Returns an iterator over the names and contents of the tensors that `skeleton` omits.
    fn tensors(&self) -> Tensors {
        Tensors { model: Arc::clone(&self.model), next: 0 }
    }
}

/// A complete file that waits for its name.
#[pyclass(module = "jax2onnx._core")]
pub(crate) struct PendingFile(Option<Pending>);

#[pymethods]
impl PendingFile {
    /// Gives the file its name.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let finished = self.0.take().map_or(Ok(()), Pending::finish);
        finished.map_err(|error| writing(py, error))
    }

    /// Removes the file.
    fn discard(&mut self) {
        drop(self.0.take());
    }
}

/// Writes models that share their large weights in the file `data`, and other files. They replace
/// the contents of `folder` atomically.
#[pyfunction]
pub(crate) fn save_set(
    py: Python<'_>,
    folder: PathBuf,
    models: Vec<(String, Py<Model>)>,
    data: String,
    files: Vec<(String, PyBackedBytes)>,
) -> PyResult<()> {
    let models: Vec<(String, Arc<onnx_file::Model>)> =
        models.into_iter().map(|(name, model)| (name, Arc::clone(&model.get().model))).collect();
    let set = Set {
        models: models.iter().map(|(name, model)| (name.as_str(), &**model)).collect(),
        data: &data,
        files: files.iter().map(|(name, content)| (name.as_str(), &**content)).collect(),
    };
    while_not_interrupted(py, &AtomicU64::new(0), |go_on| set.save_while(&folder, go_on))
}

/// Saves without holding the interpreter, until the user presses Ctrl-C, and counts the bytes.
fn while_not_interrupted(
    py: Python<'_>,
    written: &AtomicU64,
    save: impl FnOnce(&mut GoOn<'_>) -> onnx_file::Result<()> + Send,
) -> PyResult<()> {
    let (saved, interrupted) = py.detach(|| {
        let mut interrupted = None;
        let mut asked = Instant::now();
        let saved = save(&mut |saving| {
            if let Saving::Wrote(bytes) = saving {
                written.fetch_add(bytes, Ordering::Relaxed);
            }
            // Other threads may keep the interpreter busy, so signals are checked only now and
            // then.
            if saving != Saving::Complete && asked.elapsed() < PATIENCE {
                return Ok(());
            }
            let signal = Python::attach(|py| py.check_signals().err());
            asked = Instant::now();
            match signal {
                None => Ok(()),
                Some(signal) => {
                    interrupted = Some(signal);
                    Err(io::Error::other("interrupted"))
                }
            }
        });
        (saved, interrupted)
    });
    match interrupted {
        Some(interrupted) => Err(interrupted),
        None => saved.map_err(|error| writing(py, error)),
    }
}

/// The large tensors of a model.
#[pyclass(module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Tensors {
    model: Arc<onnx_file::Model>,
    /// The index of the first initializer that has not been examined.
    next: usize,
}

#[pymethods]
impl Tensors {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(String, Bound<'py, PyBytes>)>> {
        let Some((index, tensor)) = self.model.tensors(self.next).next() else { return Ok(None) };
        self.next = index + 1;
        let bytes = match (&tensor.raw_data, &tensor.deferred) {
            (Some(bytes), _) => PyBytes::new(py, bytes),
            (None, Some(deferred)) => {
                let read = py.detach(|| deferred.read().map_err(onnx_file::Error::contents));
                PyBytes::new(py, &read.map_err(|error| writing(py, error))?)
            }
            (None, None) => PyBytes::new(py, &[]),
        };
        Ok(Some((tensor.name.clone(), bytes)))
    }
}
