//! psum, pmax, pmin over axes that `vmap` has made positional → ReduceSum, ReduceMax, ReduceMin

use onnx::ValueId;

use super::reduce;
use crate::rules::Result;
use crate::{Context, RuleError};

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
        return Err(RuleError::unsupported("a collective over the devices of a mesh")
            .with_help("export the function of one device"));
    }
    let mut results = Vec::new();
    for operand in x {
        results.extend(reduce(cx, &[*operand])?);
    }
    Ok(results)
}
