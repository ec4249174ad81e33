//! The pipeline: a traced program in, a finished model out. Nothing here knows Python.
//!
//! This crate owns the order of everything after reading (lower, optimise, legalise, spell, seal,
//! name, verify, encode), and the diagnostics for users.

mod diagnosis;
mod graph;
mod model;
mod recording;

use std::collections::BTreeMap;

use jaxpr::Program;
use lower::Boundary;
use onnx::Graph;
use optimize::compute::{self, Compute};
use optimize::legalize::{self, Fallback};
pub use optimize::weights::Weight;
use optimize::weights::{self, Weights};
use optimize::{Forms, Missed};
use provenance::{Detail, Frame, Origins, Sources, StackId, Stacks};

pub use diagnosis::{Family, Places, REPORT};
pub use optimize::Target;

use graph::Built;
pub use recording::{Recording, RecordingError, record};

/// Settings of a conversion.
#[derive(Debug)]
pub struct Options {
    /// The opset; `None` for the lowest that costs nothing.
    pub opset: Option<i64>,
    /// The runtime that the model is for.
    pub target: Target,
    /// The amount of provenance in every node's metadata.
    pub detail: Detail,
    /// `true` to create a source map. The model contains its digest.
    pub source_map: bool,
    /// Further metadata of the model.
    pub metadata: Vec<(String, String)>,
    /// The settings of the lowering.
    pub lowering: lower::Options,
    /// The operators that become one node.
    pub forms: Forms,
    /// The precision that each part of the model computes in.
    pub compute: Compute,
    /// The storage formats of weights.
    pub weights: Weights,
    /// `true` to name nodes without a module after the functions that they come from. Stacks must
    /// be resolved.
    pub function_scopes: bool,
    /// `true` to report operators that were nearly recognised.
    pub report_missed: bool,
    /// The number of changes that the optimiser may make; `None` for any number.
    pub fuel: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            opset: None,
            target: Target::default(),
            detail: Detail::default(),
            source_map: false,
            lowering: lower::Options::default(),
            forms: Forms::auto(Target::default().opset),
            compute: Compute::default(),
            weights: Weights::default(),
            function_scopes: false,
            report_missed: false,
            fuel: None,
            metadata: Vec::new(),
        }
    }
}

impl Options {
    /// Returns `true` if the model or a source map contains source lines, so that stacks must be
    /// resolved.
    pub fn writes_lines(&self) -> bool {
        self.detail != Detail::Off || self.source_map
    }
}

/// The lines of Python that a program came from.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    /// The stacks that equations refer to.
    pub stacks: &'a Stacks,
    /// The stack of the call to the converter.
    pub entry: Option<StackId>,
    /// The definition of the function.
    pub function: Option<&'a Frame>,
    /// The contents of the user's files.
    pub sources: Sources<'a>,
}

/// A converted program.
#[derive(Debug)]
pub struct Converted {
    /// The model, ready to be written.
    pub model: onnx_file::Model,
    /// The graph that it was encoded from.
    pub graph: Graph,
    /// The opset of the model.
    pub opset: i64,
    /// The source map, if requested.
    pub source_map: Option<String>,
    /// The values of the equations, if they were recorded.
    pub results: Option<lower::Results>,
    /// The operators that were nearly recognised, if requested.
    pub missed: Vec<Missed>,
    /// The nodes that the target's GPU leaves to the CPU.
    pub fallbacks: Vec<Fallback>,
    /// Patterns that match nothing, if that is allowed.
    pub unmatched: Unmatched,
    /// The weights and their storage, if formats were requested.
    pub weights: Vec<Weight>,
    /// The number of changes by each rewrite and pass.
    pub applied: BTreeMap<&'static str, u64>,
}

/// Patterns that match nothing, by option.
#[derive(Clone, Debug, Default)]
pub struct Unmatched {
    /// The patterns of places that compute in small floats.
    pub compute: Vec<String>,
    /// The patterns of weights.
    pub weights: Vec<String>,
}

/// An error of a conversion.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot be lowered.
    #[error(transparent)]
    Lower(#[from] lower::Error),
    /// A rewrite or pass is wrong.
    #[error(transparent)]
    Optimize(#[from] optimize::Error),
    /// The target or the opset cannot express the model.
    #[error(transparent)]
    Legalize(#[from] legalize::Error),
    /// The model cannot compute in the requested precision.
    #[error(transparent)]
    Compute(#[from] compute::Error),
    /// The weights cannot be stored in the requested format.
    #[error(transparent)]
    Weights(#[from] weights::Error),
    /// The graph is invalid.
    #[error(transparent)]
    Onnx(#[from] onnx::Error),
    /// The model cannot be encoded or written.
    #[error(transparent)]
    File(#[from] onnx_file::Error),
}

/// Converts a program. In case of an error, `origins` provide its position.
pub fn convert(
    program: &Program,
    boundary: &Boundary,
    options: &Options,
    lines: &Lines<'_>,
    origins: &mut Origins,
) -> Result<Converted, Error> {
    let Built { lowered, opset, missed, fallbacks, unmatched, weights, applied } =
        graph::build(program, boundary, options, lines.stacks, origins)?;
    if options.writes_lines() {
        origins.merge_callers(lines.stacks);
    }
    let types = model::types_inside(program, boundary);
    let (model, source_map) =
        model::encode(&lowered.graph, opset, options, lines, origins, &missed, types)?;
    let results = options.lowering.record.then_some(lowered.results);
    let graph = lowered.graph;
    Ok(Converted {
        model,
        graph,
        opset,
        source_map,
        results,
        missed,
        fallbacks,
        unmatched,
        weights,
        applied,
    })
}
