//! The operators that work on transposed operands as well, and what they need for it.

use onnx::operators::Axes;
use onnx::{Attr, Graph, Node, ValueId};
use tensor::{DType, Dim, Tensor};

use super::norm;
use super::permutation::Permutation;
use crate::targets::Convolutions;

/// How a node does on transposed operands what it does on its own.
#[derive(Debug)]
pub(super) struct Move {
    /// The operands that are transposed.
    pub(super) operands: Vec<usize>,
    /// Whether its results are also transposed; otherwise they stay the same.
    pub(super) results: bool,
    /// Whether the elements that it combines are contiguous now and would no longer be.
    pub(super) scatters: bool,
    pub(super) change: Change,
}

/// What else becomes of the node.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    /// Another axis in an attribute.
    Axis(i64),
    /// Other axes in an attribute.
    Axes(&'static str, Vec<i64>),
    /// Another operand.
    Operand(usize, Tensor),
    /// Other axes for `Shape`: its whole result, and which elements of it are wanted.
    Sizes(Vec<i64>),
    /// A product becomes a convolution of single pixels.
    Convolution(Convolution),
}

/// What a product gains as a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    /// Whether it is computed in blocks of channels.
    pub(super) in_blocks: bool,
    /// How many operators behind it, a bias and a norm, become part of it; none without a norm.
    pub(super) norm: u64,
    /// The speed of convolutions.
    pub(super) speed: Convolutions,
}

/// How `node` works on operands that are transposed by `to`, if it can.
/// `convolutions` is `None` if products do not become convolutions.
pub(super) fn movement(
    graph: &Graph,
    node: &Node,
    to: &Permutation,
    convolutions: Option<Convolutions>,
) -> Option<Move> {
    let rank = to.rank();
    let first = node.input(0)?;
    let result = *node.outputs.first()?;
    if graph.ty(first).rank() != rank && graph.ty(result).rank() != rank {
        return None;
    }
    let axes = node.operator().axes;
    // Only what broadcasts may have operands of lower rank; it gives the rank itself.
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
        Axes::MatMul => one(true, Change::Convolution(convolves(graph, node, to, convolutions?)?)),
        Axes::Resize => {
            let of_region = node.attr("coordinate_transformation_mode").is_some_and(
                |mode| matches!(mode, Attr::String(mode) if &**mode == "tf_crop_and_resize"),
            );
            // Kernels interpolate along the last two axes, and others only in some cases.
            let interpolates = node
                .attr("mode")
                .is_some_and(|mode| matches!(mode, Attr::String(mode) if &**mode != "nearest"));
            if of_region || interpolates {
                return None;
            }
            if let Some(axes) = node.ints("axes") {
                return one(true, Change::Axes("axes", axes_to(axes)?));
            }
            // Two of the three operands behind the first are left out or empty.
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

/// Something if a product of each pixel's channels is as fast as a convolution, which has them second.
fn convolves(
    graph: &Graph,
    node: &Node,
    to: &Permutation,
    convolutions: Convolutions,
) -> Option<Convolution> {
    let image = graph.ty(node.input(0)?);
    if Permutation::channels_second(image.rank()).as_ref() != Some(to) {
        return None;
    }
    let (from, into) = pixelwise(graph, node, convolutions)?;
    let norm = norm::behind(graph, node);
    let in_blocks =
        image.rank() == 4 && [from, into].iter().all(|size| size % convolutions.block == 0);
    (norm > 0 || in_blocks).then_some(Convolution { in_blocks, norm, speed: convolutions })
}

/// The order in which a product would be a convolution that does the norm behind it as well.
pub(super) fn order_for_norm(
    graph: &Graph,
    node: &Node,
    convolutions: Convolutions,
) -> Option<Permutation> {
    let is_product = node.is("MatMul");
    let order = Permutation::channels_second(graph.ty(node.input(0)?).rank());
    let is_pixelwise = || pixelwise(graph, node, convolutions).is_some();
    order.filter(|_| is_product && is_pixelwise() && norm::behind(graph, node) > 0)
}

/// The channels before and after a product with one matrix for enough pixels.
fn pixelwise(graph: &Graph, node: &Node, convolutions: Convolutions) -> Option<(i64, i64)> {
    let (image, weight) = (graph.ty(node.input(0)?), graph.ty(node.input(1)?));
    let pixels = super::elements(image.shape.get(1..image.rank().checked_sub(1)?)?);
    let is_empty = image.shape.contains(&Dim::Known(0));
    let [from, into] = weight.static_shape()?.try_into().ok()?;
    let fits = image.dtype == DType::F32 && !is_empty && from > 0 && into > 0;
    (fits && pixels >= convolutions.pixels).then_some((from, into))
}

/// Whether the result of a reduction is transposed, too; nothing if it would be transposed in
/// another way.
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

/// The elements of a vector with one for each axis, in the new order.
fn each_axis(numbers: &Tensor, to: &Permutation) -> Option<Tensor> {
    let bytes = numbers.bytes()?;
    let width = bytes.len().checked_div(numbers.len())?;
    let elements: Vec<&[u8]> = bytes.chunks_exact(width.max(1)).collect();
    (elements.len() == to.rank()).then_some(())?;
    let bytes = to.apply(&elements).concat();
    Tensor::new(numbers.dtype(), numbers.shape(), std::sync::Arc::new(bytes)).ok()
}
