//! From a program to a finished graph: the order of the stages.

use std::collections::BTreeMap;

use jaxpr::Program;
use lower::{Boundary, Lowered};
use onnx::Assumption;
use optimize::legalize::{
    Fallback, avoid_bugs, fallbacks, has_present_forms, legalize, legalize_outputs, lowest_opset,
    replace_fused, required_opset, spell,
};
use optimize::weights::Weight;
use optimize::{Form, Forms, Missed, Verify};
use provenance::{Detail, Origins, Stacks};

use crate::{Error, Options, Unmatched};

/// A finished graph.
pub(crate) struct Built {
    pub(crate) lowered: Lowered,
    /// The opset that the graph is valid in.
    pub(crate) opset: i64,
    /// The operators that were nearly recognised, if requested.
    pub(crate) missed: Vec<Missed>,
    /// The nodes that a GPU leaves to the CPU.
    pub(crate) fallbacks: Vec<Fallback>,
    /// Patterns that match nothing, by option.
    pub(crate) unmatched: Unmatched,
    /// The weights and their storage, if formats were requested.
    pub(crate) weights: Vec<Weight>,
    /// The number of changes by each rewrite and pass.
    pub(crate) applied: BTreeMap<&'static str, u64>,
}

/// Builds the finished graph of a program. If a device does not run a node because the opset is too new,
/// the graph is built again for an older one.
pub(crate) fn build(
    program: &Program,
    boundary: &Boundary,
    options: &Options,
    stacks: &Stacks,
    origins: &mut Origins,
) -> Result<Built, Error> {
    let built = build_for(program, boundary, (options, options.opset), stacks, origins)?;
    let until = built.fallbacks.iter().filter_map(|node| node.until).min();
    if until.is_none() || options.opset.is_some() {
        return Ok(built);
    }
    let mut again = Origins::default();
    match build_for(program, boundary, (options, until), stacks, &mut again) {
        Ok(other) if other.fallbacks.len() < built.fallbacks.len() => {
            *origins = again;
            Ok(other)
        }
        _ => Ok(built),
    }
}

/// Builds the finished graph of a program. It is verified once. If it is invalid, it is built again
/// and verified after each pass, so that the error names the pass.
fn build_for(
    program: &Program,
    boundary: &Boundary,
    options: (&Options, Option<i64>),
    stacks: &Stacks,
    origins: &mut Origins,
) -> Result<Built, Error> {
    let verify = optimize::Options::default().verify;
    match attempt(program, boundary, options, (stacks, verify), origins) {
        Err(Error::Onnx(_)) if verify > Verify::EachPass => {
            *origins = Origins::default();
            attempt(program, boundary, options, (stacks, Verify::EachPass), origins)
        }
        done => done,
    }
}

fn attempt(
    program: &Program,
    boundary: &Boundary,
    (options, opset): (&Options, Option<i64>),
    (stacks, verify): (&Stacks, Verify),
    origins: &mut Origins,
) -> Result<Built, Error> {
    let mut lowered = lower::lower(program, boundary, &options.lowering, origins)?;
    let graph = &mut lowered.graph;
    if options.lowering.record {
        graph.remember_replacements();
    }
    let target = options.target;
    let usable = opset.unwrap_or_else(|| options.forms.usable_opset(target));
    let narrows = !options.compute.precisions.is_empty();
    let finite = graph.assumptions.contains(Assumption::Finite);
    // Convolutions in place of products were measured for 32-bit floats. Block-wise formats exist
    // only for weights of products.
    let convolves = !narrows && !options.weights.has_integers();
    let chosen = options.forms.clone();
    let mut forms = Forms { opset: usable, narrows, finite, convolves, target, ..chosen };
    for op in target.elementary {
        forms.named.entry((*op).to_owned()).or_insert(Form::Elementary);
    }
    let clean_up = optimize::Options {
        fuel: options.fuel,
        verify,
        forms,
        report_missed: options.report_missed || options.detail != Detail::Off,
        ..Default::default()
    };
    let mut done = optimize::optimize(graph, origins, &clean_up)?;
    let before = graph.value_count();
    let fixed = opset;
    let required = match fixed {
        Some(opset) => opset,
        None => required_opset(graph, target)?,
    };
    // Operators that are too new for the target are replaced, as for an opset that the user fixes.
    let opset = if fixed.is_none() { required.min(target.newest_opset) } else { required };
    if fixed.is_some() || opset < required {
        onnx::check_types(graph, opset)?;
    }
    let compute = &options.compute;
    let unmatched = optimize::compute::narrow(graph, origins, stacks, compute, opset, target)?;
    legalize(graph, origins, opset, target)?;
    if graph.value_count() > before {
        // Nodes were replaced one by one, so equal nodes are merged now. Nothing is fused again.
        let fuel = options.fuel.map(|fuel| fuel.saturating_sub(done.total()));
        let opset = Some(opset).filter(|opset| has_present_forms(graph, *opset, target));
        let clean_up = optimize::Options { fuel, fuse: false, verify, opset, ..Default::default() };
        for (name, count) in optimize::optimize(graph, origins, &clean_up)?.applied {
            *done.applied.entry(name).or_default() += count;
        }
    }
    avoid_bugs(graph, origins, opset, target, &clean_up.forms)?;
    let (weights, forms) = (&options.weights, &clean_up.forms);
    let stored = optimize::weights::shrink(graph, origins, weights, opset, forms)?;
    let unmatched = Unmatched { compute: unmatched, weights: stored.unmatched };
    let lowers = fixed.is_none().then_some(forms);
    replace_fused(graph, origins, opset, target, lowers)?;
    spell(graph, origins, opset)?;
    onnx::check_opset(graph, opset)?;
    onnx::seal_outputs(graph, origins, &boundary.output_names)?;
    legalize_outputs(graph, origins, opset, target)?;
    let opset = fixed.unwrap_or_else(|| lowest_opset(graph, opset, target));
    onnx_file::separate_constants(graph);
    if options.function_scopes {
        origins.scope_by_functions(stacks);
    }
    onnx::assign_names(graph, origins);
    onnx::verify(graph, Some(opset))?;
    onnx::verify_names(graph)?;
    let fallbacks = fallbacks(graph, opset, target);
    let (missed, applied, weights) = (done.missed, done.applied, stored.weights);
    Ok(Built { lowered, opset, missed, fallbacks, unmatched, weights, applied })
}
