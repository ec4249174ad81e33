//! Products that become convolutions with a kernel of one pixel, and batch norms after them, which
//! can be fused into a convolution but not into a product.

use onnx::{Graph, Node, ValueId};
use tensor::{DType, Dim};

use crate::movement::AxisMap;
use crate::movement::cost::elements;
use crate::recognize::batch_norm;
use crate::targets::Convolutions;

/// The maximum number of operators of a bias and a norm.
const MOST: usize = 6;

/// The gain of a product that becomes a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    /// `true` if it is computed in blocks of channels.
    pub(super) in_blocks: bool,
    /// The number of downstream operators, a bias and a norm, that can be fused into it. Zero
    /// without a norm.
    pub(super) norm: u64,
    /// The speed of convolutions.
    pub(super) speed: Convolutions,
}

/// Returns the gain of a product of each pixel's channels if it is at least as fast as a
/// convolution, which has the channels second.
pub(super) fn convolves(
    graph: &Graph,
    node: &Node,
    to: &AxisMap,
    convolutions: Convolutions,
) -> Option<Convolution> {
    let image = graph.ty(node.input(0)?);
    if AxisMap::channels_second(image.rank()).as_ref() != Some(to) {
        return None;
    }
    let (from, into) = pixelwise(graph, node, convolutions)?;
    let norm = norm_behind(graph, node);
    let in_blocks =
        image.rank() == 4 && [from, into].iter().all(|size| size % convolutions.block == 0);
    (norm > 0 || in_blocks).then_some(Convolution { in_blocks, norm, speed: convolutions })
}

/// Returns the order in which a product would be a convolution that absorbs the norm after it.
pub(super) fn order_for_norm(
    graph: &Graph,
    node: &Node,
    convolutions: Convolutions,
) -> Option<AxisMap> {
    let fits = node.is("MatMul")
        && pixelwise(graph, node, convolutions).is_some()
        && norm_behind(graph, node) > 0;
    if fits { AxisMap::channels_second(graph.ty(node.input(0)?).rank()) } else { None }
}

/// Returns the numbers of channels before and after a product of one matrix with enough pixels.
fn pixelwise(graph: &Graph, node: &Node, convolutions: Convolutions) -> Option<(i64, i64)> {
    let (image, weight) = (graph.ty(node.input(0)?), graph.ty(node.input(1)?));
    let pixels = elements(image.shape.get(1..image.rank().checked_sub(1)?)?);
    let is_empty = image.shape.contains(&Dim::Known(0));
    let [from, into] = weight.static_shape()?.try_into().ok()?;
    let fits = image.dtype == DType::F32 && !is_empty && from > 0 && into > 0;
    (fits && pixels >= convolutions.pixels).then_some((from, into))
}

/// Returns the number of operators after a product that add its bias and normalise each of its
/// channels by a given deviation. A convolution would absorb them all. Returns zero without a norm.
fn norm_behind(graph: &Graph, product: &Node) -> u64 {
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
    let (id, index) = graph.value(value).only_consumer()?;
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
