//! psum, pmax, pmin over axes that `vmap` has made positional → ReduceSum, ReduceMax, ReduceMin

use onnx::ValueId;

use super::reduce;
use crate::{Context, Result, RuleError};

pub(crate) fn sum(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    each(cx, x, reduce::sum)
}

pub(crate) fn max(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    each(cx, x, reduce::max)
}

pub(crate) fn min(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    each(cx, x, reduce::min)
}

fn each(
    cx: &mut Context<'_>,
    x: &[ValueId],
    reduce: fn(&mut Context<'_>, &[ValueId]) -> Result,
) -> Result {
    if cx.param::<Vec<usize>>("axes").is_err() {
        return Err(RuleError::unsupported(
            "collectives over the devices of a mesh are not supported",
        )
        .with_help("export the function that runs on one device"));
    }
    x.iter().map(|operand| Ok(reduce(cx, &[*operand])?[0])).collect()
}
