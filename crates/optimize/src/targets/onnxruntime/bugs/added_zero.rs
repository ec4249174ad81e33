//! Adds zeros with `Sum` instead of `Add`, and converts the subtraction of minus zero to this form.
//!
//! onnxruntime's `NoopElimination` drops the `Add` or the `Sub`, so minus zero is not converted to
//! zero.

use onnx::{Attrs, NodeId, ValueId};
use tensor::Tensor;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::{Bug, add_by_sum};

pub(super) static BUG: Bug =
    Bug { name: "added_zero", roots: Roots::Named(&["Add", "Sub"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    let is_zero = |value: &ValueId, negative: bool| {
        let number = work.graph().tensor(*value).filter(|tensor| tensor.len() == 1);
        let number = number.and_then(Tensor::splat);
        number.is_some_and(|x| x == 0.0 && x.is_sign_negative() == negative)
    };
    if node.is("Add") && node.inputs.iter().flatten().any(|x| is_zero(x, false)) {
        add_by_sum(work, id)?;
    } else if let Some(minus) = node.input(1).filter(|x| node.is("Sub") && is_zero(x, true)) {
        let x = node.input(0);
        let Some(minus) = work.graph().constant(minus) else { return Ok(()) };
        let zero = Tensor::scalar(minus.dtype(), 0.0);
        let Some(zero) = zero.and_then(|zero| zero.reshaped(minus.shape()).ok()) else {
            return Ok(());
        };
        let mut b = work.builder(id);
        let zero = b.constant(zero);
        let add = b.op_optional("Add", &[x, Some(zero)], Attrs::new())?;
        let producer = b.graph().producer(add);
        work.substitute(id, &[add])?;
        if let Some(add) = producer {
            add_by_sum(work, add)?;
        }
    }
    Ok(())
}
