//! Bounded scores of attention, to which a mask may be added instead of a choice.
//!
//! Such scores can be NaN or infinite only if a row of the normalised value that they are computed
//! from has NaN. Then the averaged values have NaN as well, and so has every average over them,
//! regardless of the mask: zero times NaN is NaN.

use onnx::facts::{Factor, NanSpread, NormBound, ScoreBound};
use onnx::{Graph, Node, ValueId};

/// Bounds of scores.
pub(crate) struct Scores {
    /// An upper bound on their absolute values, with room for rounding and for weights that are stored in fewer bits.
    pub(crate) largest: f64,
    /// `true` if the NaN of a row of queries reaches the result only if the mask shows something of that row.
    pub(crate) needs_shown: bool,
}

impl Scores {
    /// Returns the bounds of `scores`, the operand of `softmax`.
    pub(crate) fn of(graph: &Graph, scores: ValueId, softmax: &Node) -> Option<Self> {
        let averaged = averaged(graph, *softmax.outputs.first()?)?;
        let v = graph.facts().norm_bound(averaged).filter(|v| v.spread == NanSpread::All)?;
        let ScoreBound { queries, keys, largest } = graph.facts().score_bound(scores)?;
        let places = |bound: &NormBound, value| bound.rows_from_end(graph.ty(value).rank());
        let of_factor = |factor: &Factor| places(&factor.bound, factor.value);
        let v_places = places(&v, averaged);
        // One axis is summed over. All others are batches, at the same position in every operand.
        let rows = v_places.iter().position(|place| *place == Some(2))?;
        // If a row is a feature of the values, NaN does not reach the other features.
        if v_places.contains(&Some(1)) {
            return None;
        }
        let same_batches = |other: &[Option<usize>]| {
            let is_batch = |at: usize| v_places[at].is_none_or(|place| place > 2);
            (0..v_places.len()).all(|at| at == rows || (is_batch(at) && v_places[at] == other[at]))
        };
        if keys.bound.source != v.source || !same_batches(&of_factor(&keys)) {
            return None;
        }
        let needs_shown = queries.bound.source != v.source;
        if !needs_shown && !same_batches(&of_factor(&queries)) {
            return None;
        }
        Some(Self { largest, needs_shown })
    }
}

/// Returns the values that are averaged by `weights`, if these have no other use.
fn averaged(graph: &Graph, mut weights: ValueId) -> Option<ValueId> {
    loop {
        let (id, 0) = graph.value(weights).only_consumer()? else { return None };
        let node = graph.node(id);
        if node.is("MatMul") {
            return node.input(1);
        }
        weights = *node.outputs.first()?;
        if !(node.is("Identity") || node.is("Cast") && graph.ty(weights).dtype.is_float()) {
            return None;
        }
    }
}
