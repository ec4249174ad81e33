//! Type inference: the element types and shapes of a node's results.
//!
//! Lowering infers types as it builds, so rules never state them, and the driver can compare the
//! result of a rule with the type that JAX expects. Operators have the semantics of opsets 23 to
//! 26. The element types that an opset or a runtime accepts do not matter here: types are compared
//! only if they must agree for the result to have a type at all.

pub(crate) mod attention;
mod broadcast;
mod call;
pub(crate) mod content;
pub(crate) mod control_flow;
pub(crate) mod convolution;
pub(crate) mod einsum;
pub(crate) mod elementwise;
pub(crate) mod fourier;
pub(crate) mod indexing;
pub(crate) mod linear;
pub(crate) mod movement;
pub(crate) mod normalization;
pub(crate) mod pooling;
pub(crate) mod quantization;
pub(crate) mod recurrent;
pub(crate) mod reduction;
pub(crate) mod reshape;
pub(crate) mod resize;
pub(crate) mod shape;
pub(crate) mod slice;
#[cfg(test)]
mod tests;
mod window;

use std::ops::RangeInclusive;

use tensor::Type;

pub(crate) use call::Call;
pub(crate) use content::content;
pub use reshape::may_hold_as_many;
pub use slice::sliced;

use crate::{Op, Result};

/// Returns `true` if the types of an operator's results can be inferred. Otherwise the caller has
/// to state them.
pub fn is_inferred(op: &Op) -> bool {
    op.operator().infer.is_some()
}

/// Returns the types of the results of `call`.
pub(crate) fn infer(call: &Call<'_>) -> Result<Vec<Type>> {
    if !call.op.domain.is_empty() {
        let domain = call.op.domain;
        return Err(call.error(format!("no type inference for operators of domain `{domain}`")));
    }
    let operator = call.op.operator();
    let Some(infer) = operator.infer else {
        return Err(call.error("no type inference for this operator"));
    };
    let (operands, results) = (operator.operands(), operator.results());
    if !operands.contains(&call.inputs.len()) {
        return Err(wrong_count(call, "operands", call.inputs.len(), &operands));
    }
    if !results.contains(&call.count) {
        return Err(wrong_count(call, "results", call.count, &results));
    }
    let mut types = infer(call)?;
    types.truncate(call.count);
    Ok(types)
}

fn wrong_count(
    call: &Call<'_>,
    what: &str,
    count: usize,
    range: &RangeInclusive<usize>,
) -> crate::Error {
    let (least, most) = (range.start(), range.end());
    let allowed = match most {
        _ if least == most => format!("{least}"),
        &usize::MAX => format!("{least} or more"),
        _ => format!("{least} to {most}"),
    };
    call.error(format!("there are {count} {what}, not {allowed}"))
}
