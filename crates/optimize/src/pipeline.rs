//! The schedule of the optimiser: its steps and their order.

use onnx::Graph;
use provenance::Origins;

use crate::passes::{
    carry_known_values, common_subexpressions, drop_loop_state, eliminate_dead_nodes,
    hoist_invariants, inline_known_branches, layout, merge_duplicate_constants, scan_backwards,
};
use crate::recognize::{self, RECOGNITION, recurrent};
use crate::rewrites::Phase;
use crate::{Changed, Editor, Error, Options, Pass, Problem, Report, Verify};

/// A step of the schedule.
enum PipelineStage {
    Pass(Pass),
    Rewrites(Phase),
    /// Inlines branches that are always taken and simplifies the result, until no condition is known.
    KnownBranches,
    /// Replaces the bodies of scans by recurrent layers.
    RecurrentLayers,
    /// Replaces spelled-out operators by one node each.
    Patterns,
    /// Replaces attention by one node.
    Attention,
}

/// The purpose of a step, which decides when it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Folds, shares and removes nodes. Runs again after [`Phase::Settle`].
    CleanUp,
    /// Moves work out of loops and into parameters. Results stay the same bit for bit.
    Restructure,
    /// Replaces several nodes by one. Sums may be added up in another order, so users can leave it out.
    Fuse,
}

/// The steps that are repeated, from the first to the last.
///
/// Constants are folded before equal nodes are merged: a computation that all layers share, such as
/// the mask of attention, then becomes part of each layer's own nodes. Tables are computed before
/// products are arranged and operators recognised, because both examine them. Operators are
/// recognised after equal nodes are merged, so that a mean that is used twice is one value. Fusions
/// come last, because they hide the patterns of clean-ups.
const SCHEDULE: &[(Purpose, PipelineStage)] = &[
    (Purpose::CleanUp, PipelineStage::Pass(eliminate_dead_nodes::PASS)),
    (Purpose::CleanUp, PipelineStage::Rewrites(Phase::Simplify)),
    (Purpose::CleanUp, PipelineStage::Rewrites(Phase::Evaluate)),
    (Purpose::CleanUp, PipelineStage::KnownBranches),
    (Purpose::CleanUp, PipelineStage::Pass(merge_duplicate_constants::PASS)),
    (Purpose::CleanUp, PipelineStage::Pass(common_subexpressions::PASS)),
    (Purpose::Restructure, PipelineStage::Pass(drop_loop_state::PASS)),
    (Purpose::Restructure, PipelineStage::Pass(scan_backwards::PASS)),
    (Purpose::Restructure, PipelineStage::Pass(hoist_invariants::PASS)),
    (Purpose::Restructure, PipelineStage::Pass(carry_known_values::PASS)),
    (Purpose::Fuse, PipelineStage::Rewrites(Phase::ArrangeProducts)),
    (Purpose::Fuse, PipelineStage::Pass(recurrent::split_layers::PASS)),
    (Purpose::Fuse, PipelineStage::RecurrentLayers),
    (Purpose::Fuse, PipelineStage::Pass(recurrent::both_directions::PASS)),
    (Purpose::Fuse, PipelineStage::Rewrites(Phase::Resample)),
    (Purpose::Fuse, PipelineStage::Patterns),
    (Purpose::Fuse, PipelineStage::Attention),
    (Purpose::Fuse, PipelineStage::Rewrites(Phase::Fuse)),
    (Purpose::Fuse, PipelineStage::Pass(layout::PASS)),
    (Purpose::Fuse, PipelineStage::Rewrites(Phase::FuseConvolutions)),
];

/// The maximum number of times that the schedule is repeated. Each step reaches its own fixed point,
/// so a repetition finds only changes that one step enables for an earlier one. The bound keeps the
/// total work linear.
const ITERATIONS: usize = 3;

/// Simplifies a model without changing its results.
pub fn optimize(
    graph: &mut Graph,
    origins: &mut Origins,
    options: &Options,
) -> Result<Report, Error> {
    let mut edit = Editor::new(graph, origins, options);
    edit.verify("an earlier step", Verify::EachRewrite)?;
    repeat(&mut edit, options)?;
    // A triangle cannot be moved like a selection, so triangles are cut after all layouts are
    // final.
    if options.fuse && PipelineStage::Rewrites(Phase::Settle).run(&mut edit)? == Changed::Yes {
        for (_, step) in SCHEDULE.iter().filter(|(purpose, _)| *purpose == Purpose::CleanUp) {
            step.run(&mut edit)?;
        }
    }
    // Fusions match on the original parameters, so folding these comes last.
    let fold_parameters = PipelineStage::Rewrites(Phase::FoldParameters);
    if fold_parameters.run(&mut edit)? == Changed::Yes {
        repeat(&mut edit, options)?;
        fold_parameters.run(&mut edit)?;
    }
    Ok(edit.finish())
}

/// Repeats the schedule until no step changes anything.
fn repeat(edit: &mut Editor<'_>, options: &Options) -> Result<(), Error> {
    let is_wanted = |purpose| options.fuse || purpose != Purpose::Fuse;
    let steps: Vec<_> = SCHEDULE.iter().filter(|(purpose, _)| is_wanted(*purpose)).collect();
    // The number of consecutive steps without changes.
    let mut idle = 0;
    for (_, step) in steps.iter().cycle().take(ITERATIONS * steps.len()) {
        idle = match step.run(edit)? {
            Changed::Yes => 0,
            Changed::No => idle + 1,
        };
        if idle == steps.len() {
            break;
        }
    }
    Ok(())
}

impl PipelineStage {
    fn run(&self, edit: &mut Editor<'_>) -> Result<Changed, Error> {
        let broken = |reason: &&'static str| {
            let problem = Problem::Pattern(reason);
            Error { rewrite: RECOGNITION, origin: None, problem }
        };
        match self {
            PipelineStage::Rewrites(phase) => {
                phase.rules().map_or(Ok(Changed::No), |rules| rules.run(edit))
            }
            PipelineStage::RecurrentLayers => recurrent::RULES.as_ref().map_err(broken)?.run(edit),
            PipelineStage::Patterns => recognize::RULES.as_ref().map_err(broken)?.run(edit),
            PipelineStage::Attention => {
                recognize::ATTENTION_RULES.as_ref().map_err(broken)?.run(edit)
            }
            PipelineStage::Pass(pass) => {
                let changed = (pass.run)(edit)?;
                if changed == Changed::Yes {
                    edit.verify(pass.name, Verify::EachPass)?;
                }
                Ok(changed)
            }
            PipelineStage::KnownBranches => {
                let mut changed = Changed::No;
                while PipelineStage::Pass(inline_known_branches::PASS).run(edit)? == Changed::Yes {
                    changed = Changed::Yes;
                    PipelineStage::Rewrites(Phase::Simplify).run(edit)?;
                    PipelineStage::Rewrites(Phase::Evaluate).run(edit)?;
                }
                Ok(changed)
            }
        }
    }
}
