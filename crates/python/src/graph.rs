//! The graph of a model, for queries of `jax2onnx.testing`.

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
    #[pyo3(signature = (model, function = None))]
    fn new(py: Python<'_>, model: ModelSource, function: Option<&str>) -> PyResult<Self> {
        let read = match model {
            ModelSource::Bytes(bytes) => onnx_file::skim(&bytes),
            ModelSource::File(path) => onnx_file::skim_file(&path),
        };
        let model = read.map_err(|error| match error {
            onnx_file::Error::Io { .. } => writing(py, error),
            error => PyValueError::new_err(error.to_string()),
        })?;
        let mut listing = Listing::new(&model);
        let Some(function) = function else { return Ok(Self(listing)) };
        listing.select(function).map_err(|names| {
            let help = match names.is_empty() {
                true => "the model has no functions".to_owned(),
                false => format!("choose one of: {}", names.join(", ")),
            };
            let diagnostic = Diagnostic {
                code: "no-function",
                message: format!("the model has no function `{function}`"),
                places: vec![],
                help: Some(help),
            };
            raise(py, Family::InvalidInput, &diagnostic)
        })?;
        Ok(Self(listing))
    }

    /// Returns the model as text, with one line per element.
    fn text(&self, metadata: bool) -> String {
        self.0.text(metadata)
    }

    /// Returns all nodes: operator, name, names of results, metadata.
    fn nodes(&self) -> Vec<Node> {
        let node = |node: &cli::ListedNode| {
            let results = node.results().map(str::to_owned).collect();
            (node.op.clone(), node.name.clone(), results, node.metadata.clone())
        };
        self.0.nodes().map(node).collect()
    }

    /// Describes the graph in place of a missing path. Returns `None` if the graph contains the
    /// path.
    fn missing(&self, py: Python<'_>, path: &str) -> PyResult<Option<String>> {
        self.0.missing(path).map_err(|error| {
            let help = "write operators, attributes, operands and shapes: \
                        'Gemm{transB=1}:Bx256 -> Clip(?, 0.0, 6.0):[B, 256]'";
            let diagnostic = Diagnostic {
                code: "invalid-graph-path",
                message: format!("{error} in the path `{path}`"),
                places: vec![],
                help: Some(help.to_owned()),
            };
            raise(py, Family::InvalidInput, &diagnostic)
        })
    }

    /// Returns the inputs of the model that are never read.
    fn unused_inputs(&self) -> Vec<&str> {
        self.0.unused_inputs()
    }

    /// Returns the operators of the nodes that read a value, and the names of their results.
    fn readers(&self, name: &str) -> Vec<(&str, Vec<&str>)> {
        self.0.readers(name)
    }

    /// Returns an integer attribute of the node that computes a value.
    fn integer(&self, value: &str, attribute: &str) -> Option<i64> {
        self.0.integer(value, attribute)
    }

    /// Returns the names of all constants.
    fn constants(&self) -> Vec<&str> {
        self.0.constants().collect()
    }
}
