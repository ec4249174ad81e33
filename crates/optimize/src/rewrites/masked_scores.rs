//! Bounded scores of attention, to which a mask may be added instead of a choice.
//!
//! Such scores can be NaN or infinite only if a row of the normalised value that they are computed
//! from has NaN. Then the averaged values have NaN as well, and so has every average over them,
//! regardless of the mask: zero times NaN is NaN.

use onnx::facts::{NanSpread, NormBound, is_finite};
use onnx::{Graph, Node, Use, ValueId};

/// Bounds of scores.
pub(crate) struct Scores {
    /// An upper bound on their absolute values, with room for rounding and for weights that are stored in fewer bits.
    pub(crate) largest: f64,
    /// `true` if the NaN of a row of queries reaches the result only if the mask shows something of that row.
    pub(crate) needs_shown: bool,
}

const ROOM: f64 = 4.0;

/// The number of scales and biases between a product and the softmax.
const DEPTH: u32 = 8;

impl Scores {
    /// Returns the bounds of `scores`, the operand of `softmax`.
    pub(crate) fn of(graph: &Graph, scores: ValueId, softmax: &Node) -> Option<Self> {
        let averaged = averaged(graph, *softmax.outputs.first()?)?;
        let v = graph.facts().norm_bound(averaged).filter(|v| v.spread == NanSpread::All)?;
        let (q, k, largest) = product(graph, scores, DEPTH)?;
        let places = |bounded: &NormBound, value: ValueId| {
            bounded.rows_from_end(graph.ty(value).shape.len())
        };
        let (v_places, k_places) = (places(&v, averaged), places(&k.0, k.1));
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
        if k.0.source != v.source || !same_batches(&k_places) {
            return None;
        }
        let needs_shown = q.0.source != v.source;
        if !needs_shown && !same_batches(&places(&q.0, q.1)) {
            return None;
        }
        Some(Self { largest, needs_shown })
    }
}

/// Returns the values that are averaged by `weights`, if these have no other use.
fn averaged(graph: &Graph, mut weights: ValueId) -> Option<ValueId> {
    loop {
        let mut uses = graph.value(weights).uses();
        let (Some(Use::Operand(id, 0)), None) = (uses.next(), uses.next()) else { return None };
        let node = graph.node(id);
        if node.is("MatMul") {
            return node.input(1);
        }
        let is_same = node.is("Identity") || (node.is("Cast") && result(graph, node)?.is_float());
        weights = is_same.then(|| node.outputs.first().copied()).flatten()?;
    }
}

fn result(graph: &Graph, node: &Node) -> Option<tensor::DType> {
    Some(graph.ty(*node.outputs.first()?).dtype)
}

type Operand = (NormBound, ValueId);

/// Returns the two factors of scores, and an upper bound on the scores and on all intermediate values.
fn product(graph: &Graph, scores: ValueId, depth: u32) -> Option<(Operand, Operand, f64)> {
    let depth = depth.checked_sub(1)?;
    let node = graph.node(graph.producer(scores)?);
    let (a, b) = (node.input(0)?, node.input(1));
    let dtype = graph.ty(scores).dtype;
    let keeps_shape = |x: ValueId| graph.ty(x).shape == graph.ty(scores).shape;
    if node.is("MatMul") {
        let b = b?;
        let (q, k) = (graph.facts().norm_bound(a)?, graph.facts().norm_bound(b)?);
        let is_summed = |bounded: &NormBound, value: ValueId, place: usize| {
            !bounded.rows_from_end(graph.ty(value).shape.len()).contains(&Some(place))
        };
        let size = ROOM * q.norm * k.norm;
        let is_bounded = is_summed(&q, a, 1) && is_summed(&k, b, 2) && is_finite(size, dtype);
        return is_bounded.then_some(((q, a), (k, b), size));
    }
    let (x, (q, k, size)) = if node.is("Cast") && graph.ty(a).dtype.is_float() {
        (a, product(graph, a, depth)?)
    } else if node.is("Div") {
        let divisor = graph.constant(b?)?.splat().filter(|divisor| *divisor != 0.0)?;
        let (q, k, size) = product(graph, a, depth)?;
        (a, (q, k, size / divisor.abs()))
    } else {
        let combine: fn(f64, f64) -> f64 = match node.op.name {
            "Add" | "Sub" => |size, by| size + by,
            "Mul" => |size, by| size * by,
            _ => return None,
        };
        let sides = [(a, b?), (b?, a)];
        let (x, by) =
            sides.into_iter().find_map(|(x, by)| Some((x, graph.facts().magnitude(by)?)))?;
        let (q, k, size) = product(graph, x, depth)?;
        (x, (q, k, combine(size, by)))
    };
    (keeps_shape(x) && is_finite(size, dtype)).then_some((q, k, size))
}
