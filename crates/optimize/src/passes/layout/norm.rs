//! Batch norms after products, which can be fused into a convolution but not into a product.

use onnx::{Graph, Node, Use, ValueId};
use tensor::Dim;

use crate::recognize::batch_norm;

/// The maximum number of operators of a bias and a norm.
const MOST: usize = 6;

/// Returns the number of operators after a product that add its bias and normalise each of its
/// channels by a given deviation. A convolution would absorb them all. Returns zero without a norm.
pub(super) fn behind(graph: &Graph, product: &Node) -> u64 {
    let mut value = product.outputs[0];
    let (mut count, mut is_norm) = (0, false);
    for _ in 0..MOST {
        let Some((next, deviates)) = step(graph, value) else { break };
        (value, count, is_norm) = (next, count + 1, is_norm || deviates);
    }
    if is_norm { count } else { 0 }
}

/// If the only consumer of `value` combines it with one constant per channel, returns its result,
/// and `true` if the constant is derived from a deviation.
fn step(graph: &Graph, value: ValueId) -> Option<(ValueId, bool)> {
    let mut uses = graph.value(value).uses();
    let (Some(Use::Operand(id, index)), None) = (uses.next(), uses.next()) else { return None };
    let node = graph.node(id);
    let is_factor = match node.op.name {
        "Mul" => true,
        "Div" if index == 0 => true,
        "Add" => false,
        "Sub" if index == 0 => false,
        _ => return None,
    };
    let (other, result) = (node.input(1 - index)?, node.outputs[0]);
    let [before @ .., channels] = graph.ty(other).shape.as_slice() else { return None };
    let shape = &graph.ty(value).shape;
    if before.iter().any(|dim| *dim != Dim::Known(1))
        || shape.last() != Some(channels)
        || graph.ty(result).shape != *shape
    {
        return None;
    }
    let mut has_root = false;
    let see = |node: &Node| has_root |= node.is("Sqrt");
    batch_norm::is_computed_of_constants(graph, other, see)
        .then_some((result, is_factor && has_root))
}
