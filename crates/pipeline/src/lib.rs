//! The pipeline: a traced program in, a finished model out. Nothing here knows Python.
//!
//! This crate owns the order of everything after reading (lower, optimise, legalise, spell, seal,
//! name, verify, encode), and what an error tells the user.

mod diagnosis;
mod graph;
mod model;
mod recording;

use jaxpr::Program;
use lower::Boundary;
use onnx::Graph;
use optimize::compute::{self, Compute};
use optimize::legalize::{self, Fallback};
use optimize::weights::{self, Weights};
use optimize::{Forms, Missed};
use provenance::{Detail, Frame, Origins, Sources, StackId, Stacks};

pub use diagnosis::{Family, Places, REPORT};
pub use optimize::legalize::Target;

use graph::Built;
pub use recording::{Recording, RecordingError, record};

/// How a program is converted.
#[derive(Debug)]
pub struct Options {
    /// The opset; `None` for the lowest that costs nothing.
    pub opset: Option<i64>,
    /// Where it is going to run.
    pub target: Target,
    /// How much every node says about where it came from.
    pub detail: Detail,
    /// Whether a source map is made. The model carries its digest.
    pub source_map: bool,
    /// What the model says of itself beside the source map.
    pub metadata: Vec<(String, String)>,
    /// How it is lowered.
    pub lowering: lower::Options,
    /// Which operators become one node.
    pub forms: Forms,
    /// What is computed in which precision.
    pub compute: Compute,
    /// Which weights are stored how.
    pub weights: Weights,
    /// Whether to report operators that were nearly recognised.
    pub report_missed: bool,
    /// How many changes the optimiser may make; `None` for any number.
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
            forms: Forms::auto(Target::default().opset()),
            compute: Compute::default(),
            weights: Weights::default(),
            report_missed: false,
            fuel: None,
            metadata: Vec::new(),
        }
    }
}

impl Options {
    /// Whether anything is written about where nodes came from: then stacks must be resolved.
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
    /// The texts of the user's files.
    pub sources: Sources<'a>,
}

/// A converted program.
#[derive(Debug)]
pub struct Converted {
    /// The model, ready to be written.
    pub model: onnx::Model,
    /// The graph that it was encoded from.
    pub graph: Graph,
    /// The opset that it is written in.
    pub opset: i64,
    /// The source map, if one was made.
    pub source_map: Option<String>,
    /// What became of the equations, if it was recorded.
    pub results: Option<lower::Results>,
    /// The operators that were nearly recognised, if that was asked for.
    pub missed: Vec<Missed>,
    /// What the target's GPU leaves to the CPU.
    pub fallbacks: Vec<Fallback>,
    /// Patterns that match nothing, if that is allowed.
    pub unmatched: Unmatched,
}

/// Patterns that match nothing, by option.
#[derive(Clone, Debug, Default)]
pub struct Unmatched {
    /// Those of places to compute in small floats.
    pub compute: Vec<String>,
    /// Those of weights.
    pub weights: Vec<String>,
}

/// Why a program cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be lowered.
    #[error(transparent)]
    Lower(#[from] lower::Error),
    /// A rewrite or pass went wrong.
    #[error(transparent)]
    Optimize(#[from] optimize::Error),
    /// The target or the opset cannot express it.
    #[error(transparent)]
    Legalize(#[from] legalize::Error),
    /// It cannot compute as asked for.
    #[error(transparent)]
    Compute(#[from] compute::Error),
    /// The weights cannot be stored as asked for.
    #[error(transparent)]
    Weights(#[from] weights::Error),
    /// The graph is not valid, or cannot be encoded.
    #[error(transparent)]
    Onnx(#[from] onnx::Error),
}

/// Converts a program. `origins` tell where an error belongs, too.
pub fn convert(
    program: &Program,
    boundary: &Boundary,
    options: &Options,
    lines: &Lines<'_>,
    origins: &mut Origins,
) -> Result<Converted, Error> {
    let Built { lowered, opset, missed, fallbacks, unmatched } =
        graph::build(program, boundary, options, lines.stacks, origins)?;
    if options.writes_lines() {
        origins.merge_callers(lines.stacks);
    }
    let types = model::types_inside(program, boundary);
    let (model, source_map) =
        model::encode(&lowered.graph, opset, options, lines, origins, &missed, types)?;
    let results = options.lowering.record.then_some(lowered.results);
    let graph = lowered.graph;
    Ok(Converted { model, graph, opset, source_map, results, missed, fallbacks, unmatched })
}
