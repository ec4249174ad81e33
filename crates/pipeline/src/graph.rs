//! Program to finished graph: the order of the stages.

use jaxpr::Program;
use lower::{Boundary, Lowered};
use optimize::legalize::{Target, avoid_bugs, backport, legalize};
use optimize::{Forms, Missed};
use provenance::{Detail, Origins};

use crate::{Error, Options};

/// The lowest opset that is written when the user names none.
pub const DEFAULT_OPSET: i64 = 23;

/// A finished graph.
pub(crate) struct Built {
    pub(crate) lowered: Lowered,
    /// The opset that it is valid in.
    pub(crate) opset: i64,
    /// The operators that were nearly recognised, if that was asked for.
    pub(crate) missed: Vec<Missed>,
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
    let usable = options.opset.unwrap_or(DEFAULT_OPSET);
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
            backport(graph, origins, opset)?;
            onnx::check_opset(graph, opset)?;
            opset
        }
        None => onnx::required_opset(graph, DEFAULT_OPSET)?,
    };
    legalize(graph, origins, opset, Target::OnnxRuntime)?;
    if graph.value_count() > before {
        // Nodes were replaced one by one; what they share is cleaned up, nothing is fused anew.
        let fuel = options.fuel.map(|fuel| fuel.saturating_sub(done.total()));
        let opset = Some(opset);
        let clean_up = optimize::Options { fuel, fuse: false, opset, ..Default::default() };
        optimize::optimize(graph, origins, &clean_up)?;
    }
    avoid_bugs(graph, origins, opset, Target::OnnxRuntime)?;
    onnx::seal_outputs(graph, origins, &boundary.output_names)?;
    onnx::assign_names(graph, origins);
    onnx::verify(graph, Some(opset))?;
    onnx::verify_names(graph)?;
    Ok(Built { lowered, opset, missed: done.missed })
}
