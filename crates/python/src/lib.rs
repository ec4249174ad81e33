//! The Python module `jax2onnx._core`: reads a jaxpr, converts it, maps errors. The only crate that
//! knows Python.

#![expect(clippy::needless_pass_by_value, reason = "what PyO3 extracts is owned")]

mod convert;
mod error;
mod forms;
mod jax_names;
mod memory;
mod model;
mod read;
mod record;
mod results;
mod rules;
mod source_map;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

/// The compiled part of jax2onnx.
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::convert::convert;
    #[pymodule_export]
    use super::forms::operators;
    #[pymodule_export]
    use super::model::{Model, Tensors};
    #[pymodule_export]
    use super::results::Results;
    #[pymodule_export]
    use super::rules::{LoweringContext, Value};
    #[pymodule_export]
    use super::source_map::{Frame, Source, SourceMap};
    #[pymodule_export]
    use super::{explain, main, primitives};

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::memory::configure();
        Ok(())
    }

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// The primitives that have a lowering rule, in alphabetical order.
#[pyfunction]
fn primitives() -> Vec<&'static str> {
    lower::primitives().to_vec()
}

/// What an error of a runtime means for a model, a file or its bytes; `None` if nothing in the
/// message is about it.
#[pyfunction]
fn explain(py: Python<'_>, model: Explained, message: String) -> PyResult<Option<String>> {
    let explained = match model {
        Explained::Bytes(bytes) => py.detach(|| cli::explain_bytes(&bytes, &message)),
        Explained::File(path) => py.detach(|| cli::explain_file(&path, &message)),
    };
    explained.map_err(PyValueError::new_err)
}

#[derive(FromPyObject)]
enum Explained {
    Bytes(PyBackedBytes),
    File(PathBuf),
}

/// Runs the command line `argv` (without the program's name) and returns the exit status.
#[pyfunction]
fn main(py: Python<'_>, argv: Vec<OsString>) -> PyResult<u8> {
    let Some(export) = cli::export(&argv) else {
        return Ok(py.detach(|| cli::run(argv)));
    };
    let arguments = (export.function, export.inputs, export.output, export.settings);
    let options = PyDict::new(py);
    options.set_item("opset", export.opset)?;
    options.set_item("stacktrace", export.stacktrace)?;
    options.set_item("quiet", export.quiet)?;
    let run = py.import("jax2onnx._export")?.getattr("run")?;
    run.call(arguments, Some(&options))?.extract()
}
