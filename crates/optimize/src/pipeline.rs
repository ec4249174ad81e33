//! What is run, and in which order.

use onnx::Graph;
use provenance::Origins;

use crate::passes::{
    common_subexpressions, eliminate_dead_nodes, merge_duplicate_constants, reshape_parameters,
};
use crate::rewrites::{ARRANGE, CLEAN_UP, FUSE};
use crate::{Changed, Editor, Error, Options, Pass, Report, Rewrite, Verify, runner};

enum Step {
    Pass(Pass),
    CleanUps(&'static [&'static Rewrite]),
    Fusions(&'static [&'static Rewrite]),
}

/// Constants are folded before equal nodes are shared: what each layer computes alike, such as the
/// mask of its attention, then becomes part of that layer's nodes, not of those of all layers.
/// Fusions come last: they hide what clean-ups look for.
const STEPS: [Step; 7] = [
    Step::Pass(eliminate_dead_nodes::PASS),
    Step::CleanUps(CLEAN_UP),
    Step::Pass(merge_duplicate_constants::PASS),
    Step::Pass(common_subexpressions::PASS),
    Step::Fusions(ARRANGE),
    Step::Pass(reshape_parameters::PASS),
    Step::Fusions(FUSE),
];

/// How often the steps are repeated. Each reaches its own fixpoint, so a second round finds only
/// what one step prepared for an earlier one; the bound keeps the whole linear.
const ROUNDS: usize = 3;

/// Simplifies a model without changing what it computes.
pub fn optimize(
    graph: &mut Graph,
    origins: &mut Origins,
    options: &Options,
) -> Result<Report, Error> {
    let mut edit = Editor::new(graph, origins, options);
    edit.verify("whatever came before", Verify::EachRewrite)?;
    for _ in 0..ROUNDS {
        let mut changed = Changed::No;
        let steps = STEPS.iter().filter(|step| options.fuse || !matches!(step, Step::Fusions(_)));
        for step in steps {
            changed |= run(&mut edit, step)?;
        }
        if changed == Changed::No {
            break;
        }
    }
    Ok(edit.finish())
}

fn run(edit: &mut Editor<'_>, step: &Step) -> Result<Changed, Error> {
    let pass = match step {
        Step::CleanUps(rewrites) => return runner::run(edit, "clean-ups", rewrites),
        Step::Fusions(rewrites) => return runner::run(edit, "fusions", rewrites),
        Step::Pass(pass) => pass,
    };
    let changed = (pass.run)(edit)?;
    if changed == Changed::Yes {
        edit.verify(pass.name, Verify::EachPass)?;
    }
    Ok(changed)
}
