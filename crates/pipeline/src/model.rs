//! From a finished graph to a model: its metadata and the source map.

use jaxpr::Program;
use lower::Boundary;
use onnx::Graph;
use onnx_file::{EncodeOptions, Model};
use optimize::Missed;
use provenance::{Detail, MISSED, Metadata, Origins, SOURCE_MAP, SOURCE_MAP_DIGEST, SourceMap};
use tensor::{DType, Dim};

use crate::{Lines, Options, Target, diagnosis};

/// The metadata key of the chosen forms of operators.
const OPERATORS: &str = "pkg.jax2onnx.operators";

/// The metadata key of the precisions of computations.
const COMPUTE: &str = "pkg.jax2onnx.compute";

/// The metadata key of the storage formats of weights.
const FORMATS: &str = "pkg.jax2onnx.weight_formats";

/// The metadata key of the target, for models that are not for the default target.
const TARGET: &str = "pkg.jax2onnx.target";

/// The metadata key of the user's assumptions.
const ASSUMPTIONS: &str = "pkg.jax2onnx.assume";

/// The metadata key of the constraints on symbolic dimensions.
const CONSTRAINTS: &str = "pkg.jax2onnx.constraints";

/// The metadata key of the function's types, for inputs and outputs of other types.
const TYPES: &str = "pkg.jax2onnx.types";

/// Lists the element types of the function, one per line, for inputs and outputs whose type in the
/// model differs.
pub(crate) fn types_inside(program: &Program, boundary: &Boundary) -> Option<String> {
    let main = program.jaxpr(program.main?);
    let inputs = boundary.input_types.keys().filter_map(|i| {
        Some((boundary.input_names.get(*i)?, main.ty(*main.inputs.get(*i)?).dtype))
    });
    let outputs = boundary.output_types.keys().filter_map(|i| {
        Some((boundary.output_names.get(*i)?, main.atom_ty(main.outputs.get(*i)?).dtype))
    });
    let line = |(name, dtype): (&String, DType)| format!("{name}={}", dtype.numpy_name());
    let lines: Vec<String> = inputs.chain(outputs).map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Encodes the model, and its source map if requested.
pub(crate) fn encode(
    graph: &Graph,
    opset: i64,
    options: &Options,
    lines: &Lines<'_>,
    origins: &Origins,
    missed: &[Missed],
    types: Option<String>,
) -> onnx_file::Result<(Model, Option<String>)> {
    let &Lines { stacks, entry, function, sources } = lines;
    let detail = options.detail;
    let metadata = Metadata { detail, origins, stacks, entry, function };
    let map = (options.source_map || detail == Detail::SourceMap).then(|| {
        let (inputs, nodes) = (onnx_file::map_inputs(graph), onnx_file::map_nodes(graph));
        SourceMap::build(&inputs, &nodes, origins, stacks, function, sources).to_text()
    });
    let missed = (detail != Detail::Off && !missed.is_empty()).then(|| {
        let lines = missed.iter().map(|one| diagnosis::missed(one, origins, stacks));
        lines.collect::<Vec<_>>().join("\n")
    });
    let is_default = options.target == Target::default();
    let assumptions = graph.assumptions;
    let further = [
        (OPERATORS, options.forms.to_text()),
        (COMPUTE, options.compute.to_text()),
        (FORMATS, options.weights.to_text()),
        (TARGET, (!is_default).then(|| options.target.name.to_owned())),
        (ASSUMPTIONS, (!assumptions.is_empty()).then(|| assumptions.to_string())),
        (CONSTRAINTS, constraints(graph)),
        (TYPES, types),
        (MISSED, missed),
        match detail {
            Detail::SourceMap => (SOURCE_MAP, map.clone()),
            _ => (SOURCE_MAP_DIGEST, map.as_ref().map(|map| provenance::digest(map.as_bytes()))),
        },
    ];
    let mut model_metadata = options.metadata.clone();
    model_metadata.extend(further.into_iter().filter_map(|(k, text)| Some((k.to_owned(), text?))));
    let plain = EncodeOptions::new(opset);
    // Who asks for an old opset has an old runtime, which skips the metadata of nodes.
    let newest = options.target.newest_ir_version;
    let ir_version = if detail != Detail::Off && options.opset.is_none() {
        plain.ir_version.max(EncodeOptions::IR_VERSION.min(newest))
    } else {
        plain.ir_version
    };
    let encoding = EncodeOptions {
        ir_version,
        node_metadata: &|node| metadata.of(node.origin),
        model_metadata,
        ..plain
    };
    Ok((onnx_file::encode(graph, &encoding)?, map))
}

/// Lists the constraints on the sizes of the inputs, one per line.
fn constraints(graph: &Graph) -> Option<String> {
    let dims = graph.block(Graph::MAIN).inputs.iter().flat_map(|input| &graph.ty(*input).shape);
    let constraints = dims.filter_map(Dim::constraints).next()?;
    Some(constraints.texts().collect::<Vec<_>>().join("\n"))
}
