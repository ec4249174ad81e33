//! The Python module `jax2onnx._core`: reads a jaxpr, converts it, maps errors. No other crate
//! knows Python.

#![expect(clippy::needless_pass_by_value, reason = "what PyO3 extracts is owned")]

mod calls;
mod convert;
mod copies;
mod error;
mod expand;
mod forms;
mod graph;
mod jax_names;
mod memory;
mod model;
mod objects;
mod primitive;
mod read;
mod recording;
mod results;
mod rules;
mod source_map;
mod walk;
mod weight;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use cli::PythonCommand;
use pyo3::call::PyCallArgs;
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
    use super::copies::{Copier, Copies};
    #[pymodule_export]
    use super::forms::{
        Target, assumptions, contributed_types, element_types, is_precision, is_weight_format,
        operators, provider, targets,
    };
    #[pymodule_export]
    use super::graph::GraphListing;
    #[pymodule_export]
    use super::model::{Model, PendingFile, Tensors, save_set};
    #[pymodule_export]
    use super::primitive::{Primitive, beyond_models, controls, expansions, primitives};
    #[pymodule_export]
    use super::recording::read_recording;
    #[pymodule_export]
    use super::results::Results;
    #[pymodule_export]
    use super::rules::{LoweringContext, Value};
    #[pymodule_export]
    use super::source_map::{Frame, Source, SourceMap};
    #[pymodule_export]
    use super::walk::{Attributes, Reader, Walker};
    #[pymodule_export]
    use super::weight::{Safetensors, Weight};
    #[pymodule_export]
    use super::{before_inlining, command, common_subsequence, damage, explain, main, same_values};

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::memory::configure();
        Ok(())
    }

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// Explains a runtime's error message for a model, given as a file or as bytes. Returns `None` if
/// no part of the message is about the model.
#[pyfunction]
fn explain(py: Python<'_>, model: ModelSource, message: String) -> PyResult<Option<String>> {
    find_sources(py)?;
    let explained = match model {
        ModelSource::Bytes(bytes) => py.detach(|| cli::explain_bytes(&bytes, &message)),
        ModelSource::File(path) => py.detach(|| cli::explain_file(&path, &message)),
    };
    explained.map_err(PyValueError::new_err)
}

/// Returns the reason that a file cannot be read as a model, or `None` if it can.
#[pyfunction]
fn damage(py: Python<'_>, path: PathBuf) -> Option<String> {
    py.detach(|| onnx_file::skim_file(&path).err().map(|error| error.to_string()))
}

/// A model that Python passes.
#[derive(FromPyObject)]
pub(crate) enum ModelSource {
    Bytes(PyBackedBytes),
    File(PathBuf),
}

/// Matches values of the model `one` with values of `other` that are computed in the same way: by
/// the same operators, from the same inputs by position and the same weights by name. Returns the
/// names in `other` by the names in `one`.
#[pyfunction]
fn same_values(one: PyBackedBytes, other: PyBackedBytes) -> PyResult<HashMap<String, String>> {
    let read = |bytes: &[u8]| {
        onnx_file::skim(bytes)
            .map_err(|error| PyValueError::new_err(format!("not a model: {error}")))
    };
    let (one, other) = (read(&one)?, read(&other)?);
    let found = onnx_file::same_values(&one, &other);
    Ok(found.into_iter().map(|(name, same)| (name.to_owned(), same.to_owned())).collect())
}

/// Returns the original name of a function's node or value, if a runtime renamed it when it inlined
/// the function.
#[pyfunction]
fn before_inlining(name: &str) -> Option<&str> {
    cli::before_inlining(name)
}

/// Pairs the positions of equal numbers in two sequences, ascending in both. Sequences with more than
/// `most` differences are aligned only in part.
#[pyfunction]
fn common_subsequence(one: Vec<u32>, other: Vec<u32>, most: usize) -> Vec<(usize, usize)> {
    cli::common_subsequence(&one, &other, most)
}

/// Runs the command line `argv` (without the program's name) and returns the exit status.
#[pyfunction]
fn main(py: Python<'_>, argv: Vec<OsString>) -> PyResult<u8> {
    find_sources(py)?;
    match cli::python_command(&argv) {
        Some(PythonCommand::Doctor(doctor)) => run_doctor(py, &doctor),
        Some(PythonCommand::Export(export)) => run_export(py, *export),
        Some(PythonCommand::GenerateFolder(command)) => run_generate_folder(py, command),
        Some(PythonCommand::Reduce(reduce)) => run_reduce(py, reduce),
        Some(PythonCommand::Verify(verify)) => run_verify(py, verify),
        None => interruptible(py, || cli::run(argv)),
    }
}

/// Runs a command that needs no Python. Meanwhile, Ctrl-C ends the process: Python's handler only
/// takes effect after a call, but a command may wait for its input.
fn interruptible(py: Python<'_>, run: impl FnOnce() -> u8 + Send) -> PyResult<u8> {
    let signal = py.import("signal")?;
    let number = signal.getattr("SIGINT")?;
    let handler = signal.call_method1("getsignal", (&number,))?;
    let is_default = handler.is(&signal.getattr("default_int_handler")?);
    let set = |handler| signal.call_method1("signal", (number.clone(), handler));
    // Only the main thread may set it.
    let is_set = is_default && set(signal.getattr("SIG_DFL")?).is_ok();
    let status = py.detach(run);
    if is_set {
        set(handler)?;
    }
    Ok(status)
}

/// Runs a command that needs no Python. Returns the exit status, the output and the errors.
#[pyfunction]
fn command(py: Python<'_>, argv: Vec<OsString>) -> PyResult<(u8, String, String)> {
    find_sources(py)?;
    Ok(py.detach(|| {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let status = cli::run_on(
            argv,
            &mut cli::Terminal {
                input: None,
                output: &mut output,
                errors: &mut errors,
                colors: false,
                width: usize::MAX,
            },
        );
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (status, text(output), text(errors))
    }))
}

/// Lets commands find the source of installed packages and of notebook cells. Digests confirm it.
fn find_sources(py: Python<'_>) -> PyResult<()> {
    let folders = py.import("sys")?.getattr("path")?;
    let folders = folders.try_iter()?.filter_map(|folder| folder.ok()?.extract::<PathBuf>().ok());
    cli::set_package_folders(folders.collect());
    let lines = py.import("linecache")?.getattr("getlines")?;
    let text = |path: &String| -> Option<String> {
        let lines: Vec<String> = lines.call1((path,)).ok()?.extract().ok()?;
        Some(lines.concat())
    };
    cli::set_cells(read::cells(py)?.keys().filter_map(text).collect());
    Ok(())
}

fn run_doctor(py: Python<'_>, doctor: &cli::Doctor) -> PyResult<u8> {
    let report = py.import("jax2onnx._command.doctor")?.getattr("report")?.call0()?;
    let (interpreter, system, packages, variables, problems) = report.extract()?;
    let report = cli::PythonReport { interpreter, system, packages, variables, problems };
    Ok(py.detach(|| cli::run_doctor(doctor, &report)))
}

/// Makes a dictionary of the named fields of a struct.
macro_rules! fields {
    ($py:expr, $from:expr, $($field:ident),+) => {{
        let fields = PyDict::new($py);
        $(fields.set_item(stringify!($field), $from.$field)?;)+
        fields
    }};
}

fn run_export(py: Python<'_>, export: cli::Export) -> PyResult<u8> {
    let arguments = (export.function, export.inputs, export.output_path);
    let options = fields!(
        py,
        export,
        outputs,
        checkpoint,
        external_data,
        check,
        x64,
        onnx_functions,
        training,
        name,
        missed,
        record,
        record_weights,
        quiet
    );
    options.set_item("provenance", export.provenance.provenance)?;
    options.set_item("conversion", conversion(py, export.conversion)?)?;
    run_command(py, "export", arguments, &options)
}

fn run_reduce(py: Python<'_>, reduce: cli::Reduce) -> PyResult<u8> {
    let options =
        fields!(py, reduce, specs, values, check, rtol, atol, x64, output, seconds, as_json);
    options.set_item("conversion", conversion(py, reduce.conversion)?)?;
    run_command(py, "reduce", (reduce.program,), &options)
}

fn run_generate_folder(py: Python<'_>, command: cli::GenerateFolder) -> PyResult<u8> {
    let options = fields!(py, command, context_length, adapter, all_logits, quiet);
    options.set_item("provenance", command.provenance.provenance)?;
    options.set_item("conversion", conversion(py, command.conversion)?)?;
    run_command(py, "generate_folder", (command.checkpoint, command.output), &options)
}

fn run_verify(py: Python<'_>, verify: cli::Verify) -> PyResult<u8> {
    let page = verify.page_address();
    let options = fields!(py, verify, inputs, function, dump, rtol, atol, errors, as_json);
    options.set_item("page", page)?;
    run_command(py, "verify", (verify.model, verify.reference), &options)
}

/// Returns the options of the conversion for `conversion_options` in Python.
fn conversion(py: Python<'_>, given: cli::Conversion) -> PyResult<Bound<'_, PyDict>> {
    Ok(fields!(py, given, opset, target, operators, assume, compute_dtype, weight_format, settings))
}

/// Calls `run` of a module in `jax2onnx._command`. Returns the exit status.
fn run_command<'py>(
    py: Python<'py>,
    module: &str,
    arguments: impl PyCallArgs<'py>,
    options: &Bound<'py, PyDict>,
) -> PyResult<u8> {
    let run = py.import(format!("jax2onnx._command.{module}"))?.getattr("run")?;
    run.call(arguments, Some(options))?.extract()
}
