//! cond[branches](index, x…) → If; more than two branches are a chain of If; of branches for
//! different platforms, the one for a CPU

use jaxpr::JaxprId;
use onnx::{Attrs, BlockId, ValueId, attrs};
use tensor::DType;

use super::Result;
use super::platform_index::{self, Platforms};
use crate::{Context, RuleError};

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let branches: Vec<JaxprId> = cx.param("branches")?;
    let platforms: Option<Platforms> = cx.param_or("branches_platforms", None)?;
    if let Some(platforms) = platforms {
        let index = platform_index::chosen(&platforms)?;
        let branch = branches.get(index).copied();
        let branch = branch.ok_or_else(|| RuleError::Internal("no such branch".to_owned()))?;
        return cx.inline(branch, &x[1..]);
    }
    choose(cx, &branches, 0, x[0], &x[1..])
}

/// The branches from `first` on. An index below the first or above the last takes that branch.
fn choose(
    cx: &mut Context<'_>,
    branches: &[JaxprId],
    first: usize,
    index: ValueId,
    x: &[ValueId],
) -> Result {
    let Some((branch, rest)) = branches.split_first() else {
        return Ok(Vec::new());
    };
    if rest.is_empty() {
        return cx.inline(*branch, x);
    }
    let take = if cx.dtype(index) == DType::Bool {
        cx.op("Not", &[index], Attrs::new())?
    } else {
        #[expect(clippy::cast_precision_loss, reason = "the number of branches is small")]
        let bound = cx.scalar_like(index, first as f64)?;
        cx.op("LessOrEqual", &[index, bound], Attrs::new())?
    };
    let this: BlockId = cx.block(|cx, _| cx.inline(*branch, x))?;
    let others: BlockId = cx.block(|cx, _| choose(cx, rest, first + 1, index, x))?;
    let count = cx.out_count();
    let attrs = attrs! { then_branch: this, else_branch: others };
    Ok(cx.op_many("If", &[take], attrs, count)?)
}
