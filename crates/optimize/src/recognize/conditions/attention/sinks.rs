//! Attention sinks: one more score of each head, which takes part in the softmax and has no value.

use onnx::{ValueId, fold};
use tensor::{Dim, Tensor};

use super::{Scores, broadcast, missed};
use crate::Skip;
use crate::movement::reshaped;
use crate::recognize::found::Found;

/// Returns the sinks of all heads as a vector, if there are any.
pub(super) fn sinks(found: &mut Found<'_, '_>, scores: &Scores) -> Result<Option<ValueId>, Skip> {
    let Some(column) = found.value("sink") else { return Ok(None) };
    let m = &mut *found.m;
    let graph = m.graph();
    let node = |name: &str| {
        let mut nodes = scores.between.iter().map(|id| graph.node(*id));
        nodes.find(|node| node.is(name)).ok_or(Skip::Because("there is no sink"))
    };
    let (concat, slice) = (node("Concat")?, node("Slice")?);
    let own = graph.ty(concat.input(0).ok_or("an operand is missing")?);
    let axis = fold::axis(concat.int("axis", 0), own.rank())?;
    let of_softmax = fold::axis(node("Softmax")?.int("axis", -1), own.rank())?;
    let is = |index: usize, number: f64| {
        let constant =
            slice.input(index).map(|value| graph.constant(value).and_then(Tensor::splat));
        constant.is_none_or(|found| found == Some(number))
    };
    let kept = slice.outputs.first().map(|kept| graph.ty(*kept));
    let is_last = axis == of_softmax
        && graph.ty(column).shape[axis] == Dim::Known(1)
        && is(1, 0.0)
        && is(4, 1.0)
        && kept.is_some_and(|kept| kept.shape == own.shape);
    if !is_last || graph.ty(column).dtype != own.dtype {
        return Err(missed("its weights are a part of a softmax, but not all except for a sink"));
    }
    let expanded = graph.producer(column).map(|id| graph.node(id)).filter(|node| node.is("Expand"));
    let source = expanded.and_then(|node| node.input(0)).unwrap_or(column);
    let heads = scores.plan.roles.heads();
    if broadcast(m, source, &scores.normalized)?.concat() != heads {
        return Err(missed("its sinks are not one number for each head"));
    }
    Ok(Some(reshaped(m, source, &scores.atoms.shape(&[heads]))?))
}
