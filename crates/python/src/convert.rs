//! The conversion: reads the program, and does everything else without the interpreter.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use lower::Boundary;
use onnx::Assumption;
use optimize::compute::{Compute, Precision};
use optimize::weights::Weights;
use pipeline::{Converted, Lines, Options, Places, Target};
use provenance::{Detail, Origins, Sources, StackId, Stacks};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensor::DType;

use crate::calls;
use crate::error;
use crate::forms::forms;
use crate::model::Model;
use crate::read::{self, LoadedTexts, StackOptions, Traced};
use crate::results::{self, Results};
use crate::rules::{self, Registered, Shared};

/// The attributes of Python's `Options`.
#[derive(FromPyObject)]
pub(crate) struct ExportOptions {
    model_name: String,
    opset: Option<i64>,
    target: String,
    detail: String,
    /// The file of the source map.
    source_map: Option<PathBuf>,
    source_text: bool,
    absolute_paths: bool,
    user_packages: Vec<String>,
    function_scopes: bool,
    /// The file that lists the equations.
    calls: Option<PathBuf>,
    /// The file that the program is written to, with the values of weights if `record_weights`.
    record: Option<PathBuf>,
    record_weights: bool,
    keep_results: bool,
    operators: BTreeMap<String, String>,
    normalization_mode: String,
    assume: Vec<String>,
    compute: Vec<(String, String)>,
    weights: Vec<(String, String)>,
    /// A pattern in `compute` or `weights` may refer to other models.
    in_set: bool,
    report_missed: bool,
    /// The number of changes that the optimiser may make, for tests.
    fuel: Option<u64>,
}

/// The attributes of Python's `Boundary`. Positions count all inputs or outputs.
#[derive(FromPyObject)]
pub(crate) struct ModelBoundary {
    input_names: Vec<String>,
    output_names: Vec<String>,
    inputs_as_nchw: Vec<usize>,
    outputs_as_nchw: Vec<usize>,
    input_types: BTreeMap<usize, String>,
    output_types: BTreeMap<usize, String>,
    defaults: BTreeMap<usize, bool>,
}

/// Converts a closed jaxpr.
///
/// `name_of` returns a constant's path in the user's model, or `None`. `entry` is the traceback of
/// the call to the converter, `function` the file, name and first line of the converted function.
#[pyfunction]
#[pyo3(signature = (jaxpr, options, boundary, *, name_of, rules, entry=None, function=None))]
pub(crate) fn convert(
    jaxpr: Bound<'_, PyAny>,
    options: ExportOptions,
    boundary: ModelBoundary,
    name_of: Bound<'_, PyAny>,
    rules: Vec<Registered>,
    entry: Option<Bound<'_, PyAny>>,
    function: Option<(String, String, u32)>,
) -> PyResult<Model> {
    let py = jaxpr.py();
    let given = options;
    let detail = error::detail(py, &given.detail)?;
    let source_map = given.source_map.is_some();
    let written =
        detail != Detail::Off || source_map || given.calls.is_some() || given.record.is_some();
    // Patterns may refer to lines.
    let resolve =
        written || given.keep_results || given.function_scopes || !given.compute.is_empty();
    let stacks = StackOptions {
        entry: entry.as_ref(),
        resolve,
        absolute_paths: given.absolute_paths,
        user_packages: &given.user_packages,
    };
    let primitives = rules.iter().map(|(primitive, ..)| primitive.as_str()).collect();
    let traced = read::read(&jaxpr, &name_of, &primitives, &stacks)
        .map_err(|failed| error::reading(py, *failed))?;
    let Traced { program, mut stacks, tracebacks, entry, external, jaxprs } = traced;
    let shared = Shared::new(external, jaxprs);
    let external = rules::external(py, rules, &tracebacks, &shared)?;
    let assumptions = given.assume.iter().filter_map(|name| Assumption::find(name)).collect();
    let lowering = lower::Options { external, record: given.keep_results, assumptions };
    let target = Target::find(&given.target).unwrap_or_default();
    let forms =
        forms(&given.operators, &given.normalization_mode, given.opset.unwrap_or(target.opset));
    let precisions = given.compute.iter().map(|(pattern, text)| match Precision::parse(text) {
        Some(precision) => Ok((pattern.clone(), precision)),
        None => Err(error::precision(py, text)),
    });
    let formats = given.weights.iter().map(|(pattern, text)| match Weights::parse_formats(text) {
        Some(formats) => Ok((pattern.clone(), formats)),
        None => Err(error::format(py, text)),
    });
    let options = Options {
        opset: given.opset,
        target,
        detail,
        source_map,
        metadata: Vec::new(),
        lowering,
        forms,
        compute: Compute {
            precisions: precisions.collect::<PyResult<_>>()?,
            for_others: given.in_set,
        },
        weights: Weights { formats: formats.collect::<PyResult<_>>()?, for_others: given.in_set },
        function_scopes: given.function_scopes,
        report_missed: given.report_missed,
        fuel: given.fuel,
    };
    if let Some(path) = &given.calls {
        calls::write(path, &program, &stacks).map_err(|error| error::writing(py, error))?;
    }

    let boundary = Boundary {
        model_name: given.model_name,
        input_names: boundary.input_names,
        output_names: boundary.output_names,
        inputs_as_nchw: boundary.inputs_as_nchw,
        outputs_as_nchw: boundary.outputs_as_nchw,
        input_types: types(&boundary.input_types)?,
        output_types: types(&boundary.output_types)?,
        defaults: boundary.defaults,
    };
    let function = function.filter(|_| resolve);
    let function = function.map(|f| tracebacks.definition(py, f)).transpose()?;
    let wants_map = source_map || detail == Detail::SourceMap;
    let texts = if wants_map { tracebacks.texts(py)? } else { LoadedTexts::default() };
    let mut origins = Origins::default();
    let converted = py.detach(|| {
        let text = |path: &str| texts.known.get(path).cloned();
        let sources = Sources {
            text: Some(&text),
            library: Some(&cli::python_file),
            embed: given.source_text,
            edited: &texts.edited,
        };
        let lines = Lines { stacks: &stacks, entry, function: function.as_ref(), sources };
        if let Some(path) = &given.record {
            let text =
                pipeline::record(&program, &boundary, &options, &lines, given.record_weights);
            onnx_file::replace_file(path, |file| file.write_all(text.as_bytes()))
                .map_err(Failure::Record)?;
        }
        let converted = pipeline::convert(&program, &boundary, &options, &lines, &mut origins)
            .map_err(Failure::Convert)?;
        let Converted { model, graph, source_map, results, missed, fallbacks, .. } = converted;
        let results = results.map(|results| results::entries(&results, &graph, &origins));
        let model = Model::new(model, source_map)
            .with_unmatched(converted.unmatched)
            .with_weights(converted.weights)
            .with_applied(converted.applied);
        Ok((model, results, missed, fallbacks))
    });
    let resolve = |stacks: &mut Stacks, stack: StackId| {
        // If a stack cannot be resolved, the message lacks its line.
        let _ = tracebacks.resolve(py, stacks, stack);
    };
    let error = match converted {
        Ok((model, results, missed, fallbacks)) => {
            let mut places = Places { origins: &origins, stacks: &mut stacks, resolve: &resolve };
            let model = model.with_missed(missed.iter().map(|m| places.missed(m)).collect());
            let model = model.with_fallbacks(places.fallbacks(&fallbacks));
            return match results {
                None => Ok(model),
                Some(entries) => {
                    model.with_results(py, Results::new(entries, origins, stacks, texts))
                }
            };
        }
        Err(Failure::Record(error)) => return Err(error::writing(py, error)),
        Err(Failure::Convert(error)) => error,
    };
    let rule = shared.take_failure();
    if let Some(rule) = &rule
        && let Some(cause) = &rule.cause
        && !rules::is_ordinary(py, cause)
    {
        return Err(cause.clone_ref(py));
    }
    let mut places = Places { origins: &origins, stacks: &mut stacks, resolve: &resolve };
    let is_external = matches!(
        error,
        pipeline::Error::Lower(lower::Error::Equation { fault: lower::Fault::External, .. })
    );
    let (family, mut diagnostic) = places.diagnose(error);
    if let (Some(rule), true) = (&rule, is_external) {
        diagnostic.places.push(rule.place.clone());
        diagnostic.help.clone_from(&rule.help);
    }
    // Only now are the frames of the diagnostic known.
    let texts = tracebacks.texts(py).unwrap_or_default();
    let raised = error::raise_at(py, family, &diagnostic, &texts);
    raised.set_cause(py, rule.and_then(|rule| rule.cause));
    Err(raised)
}

/// Parses element types by position from their NumPy names.
fn types(names: &BTreeMap<usize, String>) -> PyResult<BTreeMap<usize, DType>> {
    let known = |(i, name): (&usize, &String)| match DType::from_numpy_name(name) {
        Some(dtype) => Ok((*i, dtype)),
        None => Err(PyValueError::new_err(format!("unknown element type `{name}`"))),
    };
    names.iter().map(known).collect()
}

/// An error of a conversion.
enum Failure {
    /// The program cannot be written to a file.
    Record(onnx_file::Error),
    /// The program cannot be converted.
    Convert(pipeline::Error),
}
