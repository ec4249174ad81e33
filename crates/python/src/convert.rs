//! The conversion: read, then everything else without the interpreter.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use jaxpr::Program;
use lower::Boundary;
use onnx::{EncodeOptions, Graph};
use optimize::legalize::{self, Target, backport, legalize};
use optimize::{Missed, Options};
use provenance::{
    Detail, Metadata, Origins, SOURCE_MAP, SOURCE_MAP_DIGEST, SourceMap, Sources, StackId, Stacks,
};
use pyo3::prelude::*;

use crate::error::{self, Places};
use crate::forms::{self, FORMS};
use crate::model::Model;
use crate::read::{self, StackOptions, Traced};
use crate::record;
use crate::results::{self, Results};
use crate::rules::{self, Registered, Shared};

/// Converts a closed jaxpr.
///
/// `name_of` gives a constant's path in the user's model, or `None`; `entry` is the traceback of the
/// call to the converter, `function` the file, name and first line of the function it converts.
/// `fuel` is how many changes the optimiser may make, for tests: zero is none at all.
#[pyfunction]
#[pyo3(signature = (
    jaxpr, *, model_name, opset, input_names, output_names, name_of, inputs_as_nchw,
    outputs_as_nchw, detail, source_map, embed_sources, absolute_paths, entry, function, record,
    rules, results, operators, normalization_mode, report_missed, fuel=None,
))]
#[expect(clippy::too_many_arguments, reason = "the one door between Python and Rust, all by name")]
pub(crate) fn convert(
    py: Python<'_>,
    jaxpr: Bound<'_, PyAny>,
    model_name: String,
    opset: Option<i64>,
    input_names: Vec<String>,
    output_names: Vec<String>,
    name_of: Bound<'_, PyAny>,
    inputs_as_nchw: Vec<usize>,
    outputs_as_nchw: Vec<usize>,
    detail: &str,
    source_map: bool,
    embed_sources: bool,
    absolute_paths: bool,
    entry: Option<Bound<'_, PyAny>>,
    function: Option<(String, String, u32)>,
    record: Option<PathBuf>,
    rules: Vec<Registered>,
    results: bool,
    operators: BTreeMap<String, String>,
    normalization_mode: &str,
    report_missed: bool,
    fuel: Option<u64>,
) -> PyResult<Model> {
    let detail = error::detail(py, detail)?;
    let forms = forms::forms(&operators, normalization_mode, opset.unwrap_or(DEFAULT_OPSET));
    let resolve = detail != Detail::Off || source_map || record.is_some() || results;
    let stacks = StackOptions { entry: entry.as_ref(), resolve, absolute_paths };
    let primitives = rules.iter().map(|(primitive, ..)| primitive.as_str()).collect();
    let traced = read::read(&jaxpr, &name_of, &primitives, &stacks)
        .map_err(|(error, stacks)| error::reading(py, error, &stacks))?;
    let Traced { program, mut stacks, tracebacks, entry, external, jaxprs } = traced;
    let shared = Shared::new(external, jaxprs);
    let external = rules::external(rules, &tracebacks, &shared);
    let options = lower::Options { external, record: results };
    if let Some(path) = record {
        record::write(&path, &program, &stacks)
            .map_err(|source| error::writing(py, onnx::Error::Io { path, source }))?;
    }

    let boundary =
        Boundary { model_name, input_names, output_names, inputs_as_nchw, outputs_as_nchw };
    let function = function.map(|f| tracebacks.definition(f));
    let mut origins = Origins::default();
    let converted = py.detach(|| {
        let clean_up = Options { fuel, forms, report_missed, ..Options::default() };
        let Built { graph, opset, results, missed } =
            build(&program, &boundary, &options, opset, &clean_up, &mut origins)?;
        if resolve {
            origins.merge_callers(&stacks);
        }
        let metadata = Metadata {
            detail,
            origins: &origins,
            stacks: &stacks,
            entry,
            function: function.as_ref(),
        };
        let map = (source_map || detail == Detail::SourceMap).then(|| {
            let text = |path: &str| fs::read(path).ok().map(provenance::source_text);
            let sources = Sources { text: Some(&text), embed: embed_sources };
            let (inputs, nodes) = (onnx::map_inputs(&graph), onnx::map_nodes(&graph));
            let function = function.as_ref();
            SourceMap::build(&inputs, &nodes, &origins, &stacks, function, sources).to_text()
        });
        let mut model_metadata = Vec::new();
        if let Some(text) = forms::written(&clean_up.forms) {
            model_metadata.push((FORMS.to_owned(), text));
        }
        if let Some(map) = &map {
            if detail == Detail::SourceMap {
                model_metadata.push((SOURCE_MAP.to_owned(), map.clone()));
            } else {
                let digest = provenance::digest(map.as_bytes());
                model_metadata.push((SOURCE_MAP_DIGEST.to_owned(), digest));
            }
        }
        let encoding = EncodeOptions {
            node_metadata: &|node| metadata.of(node.origin),
            model_metadata,
            ..EncodeOptions::new(opset)
        };
        let model = onnx::encode(&graph, &encoding).map_err(Failure::Onnx)?;
        let results = results.map(|results| results::entries(&results, &graph, &origins));
        Ok((Model::new(model, map), results, missed))
    });
    let resolve = |stacks: &mut Stacks, stack: StackId| {
        // A stack that cannot be resolved leaves the message without its line.
        let _ = tracebacks.resolve(py, stacks, stack);
    };
    let failure = match converted {
        Ok((model, results, missed)) => {
            let mut places = Places { origins: &origins, stacks: &mut stacks, resolve: &resolve };
            let model = model.with_missed(missed.iter().map(|m| places.missed(m)).collect());
            return match results {
                None => Ok(model),
                Some(entries) => model.with_results(py, Results::new(entries, origins, stacks)),
            };
        }
        Err(failure) => failure,
    };
    let rule = shared.take_failure();
    if let Some(rule) = &rule
        && let Some(cause) = &rule.cause
        && !rules::is_ordinary(py, cause)
    {
        return Err(cause.clone_ref(py));
    }
    let mut places = Places { origins: &origins, stacks: &mut stacks, resolve: &resolve };
    let (family, diagnostic) = match failure {
        Failure::Lower(error) => places.lowering(error, rule.as_ref()),
        Failure::Optimize(error) => places.optimizing(&error),
        Failure::Legalize(error) => places.legalizing(error),
        Failure::Onnx(error) => places.building(&error),
    };
    let raised = error::raise(py, family, &diagnostic);
    raised.set_cause(py, rule.and_then(|rule| rule.cause));
    Err(raised)
}

/// Where a conversion failed.
enum Failure {
    Lower(lower::Error),
    Optimize(optimize::Error),
    Legalize(legalize::Error),
    Onnx(onnx::Error),
}

/// The oldest opset that is written when the user names none.
const DEFAULT_OPSET: i64 = 23;

/// A finished graph.
struct Built {
    graph: Graph,
    /// The opset it is valid in.
    opset: i64,
    /// What became of the equations, if it was recorded.
    results: Option<lower::Results>,
    /// The operators that were nearly recognised, if that was asked for.
    missed: Vec<Missed>,
}

/// Jaxpr to finished graph.
fn build(
    program: &Program,
    boundary: &Boundary,
    options: &lower::Options,
    opset: Option<i64>,
    clean_up: &Options,
    origins: &mut Origins,
) -> Result<Built, Failure> {
    let lowered = lower::lower(program, boundary, options, origins).map_err(Failure::Lower)?;
    let mut graph = lowered.graph;
    if options.record {
        graph.remember_replacements();
    }
    let done = optimize::optimize(&mut graph, origins, clean_up).map_err(Failure::Optimize)?;
    let opset = match opset {
        Some(opset) => {
            backport(&mut graph, origins, opset).map_err(Failure::Legalize)?;
            onnx::check_opset(&graph, opset).map(|()| opset).map_err(Failure::Onnx)?
        }
        None => onnx::required_opset(&graph, DEFAULT_OPSET).map_err(Failure::Onnx)?,
    };
    let before = graph.value_count();
    legalize(&mut graph, origins, opset, Target::OnnxRuntime).map_err(Failure::Legalize)?;
    if graph.value_count() > before {
        // Neighbours were cast one by one; what they share is cleaned up, nothing is fused anew.
        let fuel = clean_up.fuel.map(|fuel| fuel.saturating_sub(done.total()));
        let clean_up = Options { fuel, fuse: false, opset: Some(opset), ..Options::default() };
        optimize::optimize(&mut graph, origins, &clean_up).map_err(Failure::Optimize)?;
    }
    onnx::seal_outputs(&mut graph, origins, &boundary.output_names).map_err(Failure::Onnx)?;
    onnx::assign_names(&mut graph, origins);
    onnx::verify(&graph, Some(opset)).map_err(Failure::Onnx)?;
    onnx::verify_names(&graph).map_err(Failure::Onnx)?;
    let results = options.record.then_some(lowered.results);
    Ok(Built { graph, opset, results, missed: done.missed })
}
