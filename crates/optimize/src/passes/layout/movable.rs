//! The operators that also work on transposed operands, and the changes that this requires.

use onnx::operators::Axes;
use onnx::{Attr, Graph, Node, ValueId};
use tensor::{DType, Dim, Tensor};

use super::norm;
use super::permutation::Permutation;

/// The changes that let a node work on transposed operands.
#[derive(Debug)]
pub(super) struct Move {
    /// The operands to transpose.
    pub(super) operands: Vec<usize>,
    /// `true` if the results are transposed as well, `false` if they are unchanged.
    pub(super) results: bool,
    /// `true` if the combined elements are contiguous now and would no longer be.
    pub(super) scatters: bool,
    pub(super) change: Change,
}

/// The additional change of the node.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    /// Another axis attribute.
    Axis(i64),
    /// Another attribute with several axes.
    Axes(&'static str, Vec<i64>),
    /// Another operand.
    Operand(usize, Tensor),
    /// Other axes for `Shape`: the node returns all sizes, and these elements are selected.
    Sizes(Vec<i64>),
    /// A product that becomes a convolution with a kernel of one pixel.
    Convolution(Convolution),
}

/// The gain of a product that becomes a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    /// `true` if onnxruntime computes it in blocks of channels.
    pub(super) in_blocks: bool,
    /// The number of downstream operators, a bias and a norm, that can be fused into it. Zero
    /// without a norm.
    pub(super) norm: u64,
}

/// Returns the changes that let `node` work on operands transposed by `to`, if it can.
pub(super) fn movement(graph: &Graph, node: &Node, to: &Permutation) -> Option<Move> {
    let rank = to.rank();
    let first = node.input(0)?;
    let result = *node.outputs.first()?;
    if graph.ty(first).rank() != rank && graph.ty(result).rank() != rank {
        return None;
    }
    let axes = node.operator().axes;
    // Only broadcasting operators may have operands of lower rank. Their results have the full
    // rank.
    let whole = if axes == Axes::Elementwise { result } else { first };
    if graph.ty(whole).rank() != rank {
        return None;
    }
    let ints = |index: usize| graph.constant(node.input(index)?)?.to_i64s();
    let axes_to = |axes: &[i64]| axes.iter().map(|axis| to.axis(*axis)).collect::<Option<Vec<_>>>();
    let one = |results, change| Some(Move { operands: vec![0], results, scatters: false, change });
    match axes {
        Axes::Elementwise | Axes::Concat => {
            let present = (0..node.inputs.len()).filter(|&i| node.input(i).is_some());
            let change = match axes {
                Axes::Concat => Change::Axis(to.axis(node.int("axis", 0))?),
                _ => Change::Nothing,
            };
            Some(Move { operands: present.collect(), results: true, scatters: false, change })
        }
        Axes::First => one(true, Change::Nothing),
        Axes::Along(default) => one(true, Change::Axis(to.axis(node.int("axis", default))?)),
        Axes::Gather => {
            let indices = graph.ty(node.input(1)?).rank();
            (indices == 1).then_some(())?;
            one(true, Change::Axis(to.axis(node.int("axis", 0))?))
        }
        Axes::Reduce => {
            let axes = ints(1)?;
            let results = survives(graph, node, first, to, &axes)?;
            let new = sorted(axes_to(&axes)?);
            let last = i64::try_from(rank).ok()? - 1;
            let scatters =
                (axes.contains(&last) || axes.contains(&-1)) && new.last() != Some(&last);
            let change = Change::Operand(1, Tensor::i64s(&new));
            Some(Move { operands: vec![0], results, scatters, change })
        }
        Axes::ArgReduce => {
            let axis = node.int("axis", 0);
            let results = survives(graph, node, first, to, &[axis])?;
            one(results, Change::Axis(to.axis(axis)?))
        }
        Axes::AxesAt(index) => {
            let axes = match node.input(index) {
                Some(_) => ints(index)?,
                None => {
                    let count = graph.ty(node.input(1)?).shape.first()?.as_known()?;
                    (0..count).collect()
                }
            };
            one(true, Change::Operand(index, Tensor::i64s(&axes_to(&axes)?)))
        }
        Axes::Pad => {
            if node.input(3).is_some() {
                return one(true, Change::Operand(3, Tensor::i64s(&axes_to(&ints(3)?)?)));
            }
            let Some(pads) = ints(1) else {
                let axes: Vec<i64> = (0..rank).map(|axis| axis as i64).collect();
                return one(true, Change::Operand(3, Tensor::i64s(&axes_to(&axes)?)));
            };
            let (before, behind) = pads.split_at_checked(rank)?;
            let pads = [to.apply(before), to.apply(behind)].concat();
            one(true, Change::Operand(1, Tensor::i64s(&pads)))
        }
        Axes::MatMul => one(true, Change::Convolution(convolves(graph, node, to)?)),
        Axes::Resize => {
            let of_region = node.attr("coordinate_transformation_mode").is_some_and(
                |mode| matches!(mode, Attr::String(mode) if &**mode == "tf_crop_and_resize"),
            );
            // onnxruntime interpolates along the last two axes, and along others only in some
            // cases.
            let interpolates = node
                .attr("mode")
                .is_some_and(|mode| matches!(mode, Attr::String(mode) if &**mode != "nearest"));
            if of_region || interpolates {
                return None;
            }
            if let Some(axes) = node.ints("axes") {
                return one(true, Change::Axes("axes", axes_to(axes)?));
            }
            // Of the three operands after the first, two are missing or empty.
            let index = if node.input(3).is_some() { 3 } else { 2 };
            let factors = graph.constant(node.input(index)?)?;
            (factors.shape() == [rank]).then_some(())?;
            one(true, Change::Operand(index, each_axis(factors, to)?))
        }
        Axes::EachAxis(index) => {
            let numbers = graph.constant(node.input(index)?)?;
            one(true, Change::Operand(index, each_axis(numbers, to)?))
        }
        Axes::AxisAt(index) => {
            let operand = graph.constant(node.input(index)?)?;
            let axis = to.axis(*operand.to_i64s()?.first()?)?;
            let axis = Tensor::int_scalar(operand.dtype(), i128::from(axis))?;
            one(true, Change::Operand(index, axis.reshaped(operand.shape()).ok()?))
        }
        Axes::Shape => {
            let count = i64::try_from(rank).ok()?;
            let place = |at: i64| (if at < 0 { at + count } else { at }).clamp(0, count);
            let (start, end) = (place(node.int("start", 0)), place(node.int("end", count)));
            let sizes: Vec<i64> = (start..end).collect();
            one(false, Change::Sizes(axes_to(&sizes)?))
        }
        Axes::Reshape | Axes::Transpose | Axes::Softmax | Axes::Opaque => None,
    }
}

/// The number of channels per block in onnxruntime's convolutions. Other convolutions are slower
/// than products, whose weights are packed in advance.
const CHANNELS: i64 = 16;
/// The smallest number of pixels for which a convolution per image is not slower than one product
/// of all images.
const PIXELS: u64 = 16;

/// Returns the gain of a product of each pixel's channels if it is at least as fast as a
/// convolution, which has the channels second.
fn convolves(graph: &Graph, node: &Node, to: &Permutation) -> Option<Convolution> {
    let image = graph.ty(node.input(0)?);
    if Permutation::channels_second(image.rank()).as_ref() != Some(to) {
        return None;
    }
    let (from, into) = pixelwise(graph, node)?;
    let norm = norm::behind(graph, node);
    let in_blocks = image.rank() == 4 && [from, into].iter().all(|size| size % CHANNELS == 0);
    (norm > 0 || in_blocks).then_some(Convolution { in_blocks, norm })
}

/// Returns the order in which a product would be a convolution that absorbs the norm after it.
pub(super) fn order_for_norm(graph: &Graph, node: &Node) -> Option<Permutation> {
    let is_product = node.is("MatMul");
    let order = Permutation::channels_second(graph.ty(node.input(0)?).rank());
    order
        .filter(|_| is_product && pixelwise(graph, node).is_some() && norm::behind(graph, node) > 0)
}

/// Returns the numbers of channels before and after a product of one matrix with enough pixels.
fn pixelwise(graph: &Graph, node: &Node) -> Option<(i64, i64)> {
    let (image, weight) = (graph.ty(node.input(0)?), graph.ty(node.input(1)?));
    let pixels = super::elements(image.shape.get(1..image.rank().checked_sub(1)?)?);
    let is_empty = image.shape.contains(&Dim::Known(0));
    let [from, into] = weight.static_shape()?.try_into().ok()?;
    let fits = image.dtype == DType::F32 && !is_empty && from > 0 && into > 0;
    (fits && pixels >= PIXELS).then_some((from, into))
}

/// Returns `true` if the result of a reduction is transposed as well, and `None` if it would be
/// transposed differently.
fn survives(
    graph: &Graph,
    node: &Node,
    operand: ValueId,
    to: &Permutation,
    axes: &[i64],
) -> Option<bool> {
    let keeps = node.int("keepdims", 1) != 0;
    let rank = i64::try_from(graph.ty(operand).rank()).ok()?;
    let goes = |axis: usize| {
        let axis = axis as i64;
        axes.contains(&axis) || axes.contains(&(axis - rank))
    };
    (keeps || to.keeps_order_of(|axis| !goes(axis))).then_some(keeps)
}

fn sorted(mut axes: Vec<i64>) -> Vec<i64> {
    axes.sort_unstable();
    axes
}

/// Permutes a vector with one element per axis.
fn each_axis(numbers: &Tensor, to: &Permutation) -> Option<Tensor> {
    let bytes = numbers.bytes()?;
    let width = bytes.len().checked_div(numbers.len())?;
    let elements: Vec<&[u8]> = bytes.chunks_exact(width.max(1)).collect();
    (elements.len() == to.rank()).then_some(())?;
    let bytes = to.apply(&elements).concat();
    Tensor::new(numbers.dtype(), numbers.shape(), std::sync::Arc::new(bytes)).ok()
}
