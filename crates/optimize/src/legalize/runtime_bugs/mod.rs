//! Bugs of runtimes in valid models, and changes that avoid them.
//!
//! Each entry has a program that demonstrates it, which `tests/test_runtime_bugs.py` runs. An entry
//! can be deleted once its program is correct in all relevant versions.
//! `scripts/hunt_runtime_rewrites.py` searches for more.

mod added_zero;
mod axes_from_the_end;
mod cast_after_transpose;
mod double_silu;
mod half_product;
mod nested_conditions;
mod pad_before_max_pool;
mod power_before_mean;
mod relu_before_clip;
mod scaled_product;
mod scan_of_no_rows;

use onnx::{Attrs, NodeId};
use tensor::DType;

use super::{Error, Target, Work};
use crate::Roots;

/// A bug of a runtime.
struct Bug {
    /// The file of the program that demonstrates it, in `programs/`.
    #[cfg_attr(not(test), expect(dead_code, reason = "programs are for tests"))]
    name: &'static str,
    /// The runtime that has the bug.
    target: Target,
    /// The operators at which it occurs.
    roots: Roots,
    /// Changes the neighbourhood of such a node, if it is affected.
    avoid: fn(&mut Work<'_>, NodeId) -> Result<(), Error>,
}

static BUGS: [&Bug; 11] = [
    &added_zero::BUG,
    &axes_from_the_end::BUG,
    &cast_after_transpose::BUG,
    &double_silu::BUG,
    &half_product::BUG,
    &nested_conditions::BUG,
    &pad_before_max_pool::BUG,
    &power_before_mean::BUG,
    &relu_before_clip::BUG,
    &scaled_product::BUG,
    &scan_of_no_rows::BUG,
];

/// Avoids all bugs.
pub(super) fn avoid(work: &mut Work<'_>) -> Result<(), Error> {
    let target = work.target;
    for id in work.graph().all_nodes() {
        for bug in BUGS.iter().filter(|bug| target.has_code_of(bug.target)) {
            // An earlier change may have replaced the node.
            let Some(node) = work.graph().get(id) else { break };
            if bug.roots.has(node.op) {
                (bug.avoid)(work, id)?;
            }
        }
    }
    Ok(())
}

/// Replaces an `Add` by a `Sum`, which is equivalent by the specification and not matched by
/// rewrites of runtimes.
pub(super) fn add_by_sum(work: &mut Work<'_>, add: NodeId) -> Result<(), Error> {
    let node = work.graph().node(add);
    let (inputs, dtype) = (node.inputs.clone(), work.graph().ty(node.outputs[0]).dtype);
    if !matches!(dtype, DType::F16 | DType::F32 | DType::F64) {
        return Ok(());
    }
    let sum = work.builder(add, Some(add)).op_optional("Sum", &inputs, Attrs::new())?;
    work.substitute(add, &[sum])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::BUGS;
    use crate::legalize::{Target, testing};
    use std::path::Path;

    fn program(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/legalize/runtime_bugs");
        std::fs::read_to_string(folder.join("programs").join(format!("{name}.onnxtxt"))).unwrap()
    }

    #[test]
    fn what_shows_a_bug_is_changed() {
        for bug in BUGS {
            let text = program(bug.name);
            let plain = testing::legalized_text(&text, Target::Spec);
            assert_ne!(plain, testing::legalized_text(&text, bug.target), "{}", bug.name);
        }
    }
}
