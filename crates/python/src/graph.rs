//! The graph of a model, as `jax2onnx.testing` asks about it.

use cli::Listing;
use provenance::Diagnostic;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::ModelSource;
use pipeline::Family;

use crate::error::{raise, writing};

/// A node: its operator, its name, the names of its results and its metadata.
type Node = (String, String, Vec<String>, Vec<(String, String)>);

/// A model's graph, the graphs inside its nodes, and its functions.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct GraphListing(Listing);

#[pymethods]
impl GraphListing {
    #[new]
    fn new(py: Python<'_>, model: ModelSource) -> PyResult<Self> {
        let read = match model {
            ModelSource::Bytes(bytes) => onnx_file::skim(&bytes),
            ModelSource::File(path) => onnx_file::skim_file(&path),
        };
        let model = read.map_err(|error| match error {
            onnx_file::Error::Io { .. } => writing(py, error),
            error => PyValueError::new_err(error.to_string()),
        })?;
        Ok(Self(Listing::new(&model)))
    }

    /// The model as text, one line for each thing in it.
    fn text(&self, metadata: bool) -> String {
        self.0.text(metadata)
    }

    /// All nodes: operator, name, names of results, metadata.
    fn nodes(&self) -> Vec<Node> {
        let node = |node: &cli::ListedNode| {
            let results = node.results().map(str::to_owned).collect();
            (node.op.clone(), node.name.clone(), results, node.metadata.clone())
        };
        self.0.nodes().map(node).collect()
    }

    /// What there is in place of a path; None if the graph has it.
    fn missing(&self, py: Python<'_>, path: &str) -> PyResult<Option<String>> {
        self.0.missing(path).map_err(|error| {
            let help = "write operators, attributes and shapes: \
                        'Gemm{transB=1}:Bx256 -> Relu:[B, 256]'";
            let diagnostic = Diagnostic {
                code: "invalid-graph-path",
                message: format!("{error} in the path `{path}`"),
                places: vec![],
                help: Some(help.to_owned()),
            };
            raise(py, Family::InvalidInput, &diagnostic)
        })
    }

    /// The inputs of the model that nothing reads.
    fn unused_inputs(&self) -> Vec<&str> {
        self.0.unused_inputs()
    }

    /// The names of all constants.
    fn constants(&self) -> Vec<&str> {
        self.0.constants().collect()
    }
}
