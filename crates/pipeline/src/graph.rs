//! Program to finished graph: the order of the stages.

use jaxpr::Program;
use lower::{Boundary, Lowered};
use optimize::legalize::{Fallback, avoid_bugs, fallbacks, has_present_forms, legalize, spell};
use optimize::{Forms, Missed};
use provenance::{Detail, Origins};

use crate::{Error, Options};

/// A finished graph.
pub(crate) struct Built {
    pub(crate) lowered: Lowered,
    /// The opset that it is valid in.
    pub(crate) opset: i64,
    /// The operators that were nearly recognised, if that was asked for.
    pub(crate) missed: Vec<Missed>,
    /// What a GPU leaves to the CPU.
    pub(crate) fallbacks: Vec<Fallback>,
    /// Patterns of weights that match none.
    pub(crate) unmatched: Vec<String>,
}

/// The finished graph of a program.
pub(crate) fn build(
    program: &Program,
    boundary: &Boundary,
    options: &Options,
    origins: &mut Origins,
) -> Result<Built, Error> {
    let mut lowered = lower::lower(program, boundary, &options.lowering, origins)?;
    let graph = &mut lowered.graph;
    if options.lowering.record {
        graph.remember_replacements();
    }
    let target = options.target;
    let usable = options.opset.unwrap_or(target.opset());
    let clean_up = optimize::Options {
        fuel: options.fuel,
        forms: Forms { opset: usable, ..options.forms.clone() },
        report_missed: options.report_missed || options.detail != Detail::Off,
        ..Default::default()
    };
    let done = optimize::optimize(graph, origins, &clean_up)?;
    let before = graph.value_count();
    let opset = match options.opset {
        Some(opset) => {
            onnx::check_types(graph, opset)?;
            opset
        }
        None => onnx::required_opset(graph, target.opset())?,
    };
    legalize(graph, origins, opset, target)?;
    if graph.value_count() > before {
        // Nodes were replaced one by one; what they share is cleaned up, nothing is fused anew.
        let fuel = options.fuel.map(|fuel| fuel.saturating_sub(done.total()));
        let opset = Some(opset).filter(|opset| has_present_forms(*opset));
        let clean_up = optimize::Options { fuel, fuse: false, opset, ..Default::default() };
        optimize::optimize(graph, origins, &clean_up)?;
    }
    avoid_bugs(graph, origins, opset, target)?;
    let unmatched = optimize::weights::shrink(graph, origins, &options.weights, opset)?;
    spell(graph, origins, opset)?;
    onnx::check_opset(graph, opset)?;
    onnx::seal_outputs(graph, origins, &boundary.output_names)?;
    onnx::assign_names(graph, origins);
    onnx::verify(graph, Some(opset))?;
    onnx::verify_names(graph)?;
    let fallbacks = fallbacks(graph, opset, target);
    Ok(Built { lowered, opset, missed: done.missed, fallbacks, unmatched })
}
