//! A zero is added by `Sum`, not by `Add`.
//!
//! onnxruntime's `NoopElimination` drops the `Add`, and minus zero stays what it is.

use onnx::NodeId;
use tensor::Tensor;

use super::{Bug, add_by_sum};
use crate::legalize::{Error, Target, Work};

pub(super) static BUG: Bug =
    Bug { name: "added_zero", target: Target::OnnxRuntime, roots: &["Add"], avoid };

fn avoid(work: &mut Work<'_>, id: NodeId) -> Result<(), Error> {
    let mut operands = work.graph.node(id).inputs.iter().flatten();
    let is_zero = |tensor: &Tensor| {
        tensor.len() == 1 && tensor.splat().is_some_and(|x| x == 0.0 && x.is_sign_positive())
    };
    if operands.any(|x| work.graph.constant(*x).is_some_and(is_zero)) {
        add_by_sum(work, id)?;
    }
    Ok(())
}
