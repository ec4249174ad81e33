//! The steps of the optimiser and their order.

use std::sync::LazyLock;

use onnx::Graph;
use provenance::Origins;

use crate::passes::{
    carry_known_values, common_subexpressions, drop_loop_state, eliminate_dead_nodes,
    hoist_invariants, inline_known_branches, layout, merge_duplicate_constants, reshape_parameters,
    scan_backwards,
};
use crate::recognize::{RECOGNITION, recurrent, resample};
use crate::rewrites;
use crate::runner::Rules;
use crate::{Changed, Editor, Error, Options, Pass, Problem, Report, Rewrite, Verify, recognize};

/// Rewrites that are applied together.
type Group = LazyLock<Rules<'static, Rewrite>>;

macro_rules! group {
    ($name:literal, $rewrites:expr) => {
        Group::new(|| Rules::new($name, $rewrites.iter().copied()))
    };
}

static CLEAN_UP: Group = group!("clean-ups", rewrites::CLEAN_UP);
static COMPUTE: Group = group!("clean-ups", rewrites::COMPUTE);
static ARRANGE: Group = group!("fusions", rewrites::ARRANGE);
static RESAMPLE: Group = group!("recognition", &[&resample::REWRITE]);
static FUSE: Group = group!("fusions", rewrites::FUSE);
static CONVOLVE: Group = group!("fusions", rewrites::CONVOLVE);
static SETTLE: Group = group!("settling", rewrites::SETTLE);
static PARAMETERS: Group = group!("parameters", rewrites::PARAMETERS);

enum Step {
    Pass(Pass),
    CleanUps(&'static Group),
    /// Inlines branches that are always taken, and folds the constants that this reveals.
    Branches,
    Recognition,
    Fusions(&'static Group),
    /// A pass that may change the order of summation, like a fusion.
    Layout(Pass),
}

/// The steps in order.
///
/// Constants are folded before equal nodes are merged: a computation that all layers share, such as
/// the mask of attention, then becomes part of each layer's own nodes. Tables are computed before
/// products are arranged and operators recognised, because both examine them. Operators are
/// recognised after equal nodes are merged, so that a mean that is used twice is one value. Fusions
/// come last, because they hide the patterns of clean-ups.
const STEPS: [Step; 16] = [
    Step::Pass(eliminate_dead_nodes::PASS),
    Step::CleanUps(&CLEAN_UP),
    Step::CleanUps(&COMPUTE),
    Step::Branches,
    Step::Pass(merge_duplicate_constants::PASS),
    Step::Pass(common_subexpressions::PASS),
    Step::Pass(drop_loop_state::PASS),
    Step::Pass(scan_backwards::PASS),
    Step::Pass(hoist_invariants::PASS),
    Step::Pass(carry_known_values::PASS),
    Step::Fusions(&ARRANGE),
    Step::Pass(reshape_parameters::PASS),
    Step::Recognition,
    Step::Fusions(&FUSE),
    Step::Layout(layout::PASS),
    Step::Fusions(&CONVOLVE),
];

/// The number of leading steps that only fold, merge and remove.
const CLEANING: usize = 6;

/// The maximum number of times that the steps are repeated. Each step reaches its own fixed point,
/// so a repetition finds only changes that one step enables for an earlier one. The bound keeps the
/// total work linear.
const ROUNDS: usize = 3;

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
    if options.fuse && SETTLE.run(&mut edit)? == Changed::Yes {
        for step in &STEPS[..CLEANING] {
            run(&mut edit, step)?;
        }
    }
    // Fusions examine values that are computed from parameters, so they come first.
    if PARAMETERS.run(&mut edit)? == Changed::Yes {
        repeat(&mut edit, options)?;
        PARAMETERS.run(&mut edit)?;
    }
    Ok(edit.finish())
}

fn repeat(edit: &mut Editor<'_>, options: &Options) -> Result<(), Error> {
    let fuses =
        |step: &&Step| matches!(step, Step::Recognition | Step::Fusions(_) | Step::Layout(_));
    let steps: Vec<_> = STEPS.iter().filter(|step| options.fuse || !fuses(step)).collect();
    // The number of consecutive steps without changes. Once all steps are idle, nothing is left to
    // do.
    let mut idle = 0;
    for step in steps.iter().cycle().take(ROUNDS * steps.len()) {
        idle = match run(edit, step)? {
            Changed::Yes => 0,
            Changed::No => idle + 1,
        };
        if idle == steps.len() {
            break;
        }
    }
    Ok(())
}

fn run(edit: &mut Editor<'_>, step: &Step) -> Result<Changed, Error> {
    let pass = match step {
        Step::CleanUps(rewrites) | Step::Fusions(rewrites) => return rewrites.run(edit),
        Step::Branches => {
            let mut changed = Changed::No;
            while run(edit, &Step::Pass(inline_known_branches::PASS))? == Changed::Yes {
                changed = Changed::Yes;
                run(edit, &Step::CleanUps(&CLEAN_UP))?;
                run(edit, &Step::CleanUps(&COMPUTE))?;
            }
            return Ok(changed);
        }
        Step::Recognition => {
            let broken = |reason: &&'static str| {
                let problem = Problem::Pattern(reason);
                Error { rewrite: RECOGNITION, origin: None, problem }
            };
            let mut changed = recurrent::RULES.as_ref().map_err(broken)?.run(edit)?;
            changed |= run(edit, &Step::Pass(recurrent::both_directions::PASS))?;
            changed |= RESAMPLE.run(edit)?;
            changed |= recognize::RULES.as_ref().map_err(broken)?.run(edit)?;
            return Ok(changed);
        }
        Step::Pass(pass) | Step::Layout(pass) => pass,
    };
    let changed = (pass.run)(edit)?;
    if changed == Changed::Yes {
        edit.verify(pass.name, Verify::EachPass)?;
    }
    Ok(changed)
}
