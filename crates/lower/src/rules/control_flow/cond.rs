//! cond[branches](index, x…) → If; more than two branches become a tree of If; of branches for
//! different platforms, the one for CPUs

use jaxpr::JaxprId;
use onnx::{Attrs, BlockId, ValueId, attrs};

use super::platform_index::{self, Platforms};
use crate::{Context, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let branches: Vec<JaxprId> = cx.param("branches")?;
    let platforms: Option<Platforms> = cx.param_or("branches_platforms", None)?;
    if let Some(platforms) = platforms {
        let index = platform_index::chosen(&platforms)?;
        let branch = branches.get(index).copied();
        let branch = branch.ok_or_else(|| RuleError::Internal("no such branch".to_owned()))?;
        return cx.inline(branch, &x[1..]);
    }
    if branches.is_empty() {
        return Err(RuleError::Internal("no branches".to_owned()));
    }
    choose(cx, &branches, 0, x[0], &x[1..])
}

/// Chooses among the branches from number `first` on. An index below the first or above the last
/// takes that branch. A balanced tree keeps the nesting shallow, because readers of models limit
/// it.
fn choose(
    cx: &mut Context<'_>,
    branches: &[JaxprId],
    first: usize,
    index: ValueId,
    x: &[ValueId],
) -> Result {
    if let [only] = branches {
        return cx.inline(*only, x);
    }
    let (below, above) = branches.split_at(branches.len() / 2);
    let middle = first + below.len();
    let truth = cx.truth_behind(index).filter(|_| branches.len() == 2);
    let condition = match truth {
        Some(truth) => truth,
        None => {
            let dtype = cx.dtype(index);
            let last = cx.int(dtype, middle as i128 - 1)?;
            cx.op("LessOrEqual", &[index, last], Attrs::new())?
        }
    };
    let below: BlockId = cx.block(|cx, _| choose(cx, below, first, index, x))?;
    let above: BlockId = cx.block(|cx, _| choose(cx, above, middle, index, x))?;
    let (then_branch, else_branch) = if truth.is_some() { (above, below) } else { (below, above) };
    let count = cx.out_count();
    let attrs = attrs! { then_branch: then_branch, else_branch: else_branch };
    Ok(cx.op_many("If", &[condition], attrs, count)?)
}
