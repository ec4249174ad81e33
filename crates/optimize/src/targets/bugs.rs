//! Bugs of runtimes in valid models, and changes that avoid them.
//!
//! Each bug has a program that demonstrates it, which `tests/targets/test_runtime_bugs.py` runs. A bug can be
//! deleted once its program is correct in all relevant versions. `scripts/hunt_runtime_rewrites.py`
//! searches for more.

use onnx::{Attrs, NodeId};
use tensor::DType;

use crate::Roots;
use crate::legalize::{Error, Legalizer};

/// A bug of a runtime.
#[derive(Debug)]
pub(crate) struct Bug {
    /// The file of the program that demonstrates the bug, in the folder `programs` next to it.
    #[cfg_attr(not(test), expect(dead_code, reason = "programs are for tests"))]
    pub(super) name: &'static str,
    /// The operators at which the bug occurs.
    pub(super) roots: Roots,
    /// Changes the neighbourhood of such a node, if it is affected.
    pub(super) avoid: fn(&mut Legalizer<'_>, NodeId) -> Result<(), Error>,
}

/// Avoids all bugs of the target, in the order of its list. Each also sees the changes of those before it.
pub(crate) fn avoid(work: &mut Legalizer<'_>) -> Result<(), Error> {
    for bug in work.target.bugs.iter().copied().flatten() {
        for id in work.graph().nodes_where(|node| bug.roots.has(node)) {
            // An earlier change may have replaced the node.
            if work.graph().get(id).is_some() {
                (bug.avoid)(work, id)?;
            }
        }
    }
    Ok(())
}

/// Replaces an `Add` by a `Sum`, which is equivalent by the specification and not matched by
/// rewrites of runtimes.
pub(crate) fn add_by_sum(work: &mut Legalizer<'_>, add: NodeId) -> Result<(), Error> {
    let node = work.graph().node(add);
    let (inputs, dtype) = (node.inputs.clone(), work.graph().ty(node.outputs[0]).dtype);
    if !matches!(dtype, DType::F16 | DType::F32 | DType::F64) {
        return Ok(());
    }
    let sum = work.builder(add).op_optional("Sum", &inputs, Attrs::new())?;
    Ok(work.substitute(add, &[sum])?)
}
