//! The effect of a movement of axes on an operator: the changes that let a node work on moved
//! operands, by the column `axes` of its operator.

use onnx::operators::Axes;
use onnx::{Attr, Attrs, Graph, Node, ValueId};
use tensor::Tensor;

use super::AxisMap;
use crate::{Match, Skip};

/// The changes that let a node work on moved operands.
#[derive(Debug)]
pub(crate) struct Pushed {
    /// The operands to move.
    pub(crate) operands: Vec<usize>,
    /// The movement of the results, if it is not that of the operands.
    pub(crate) results: Option<AxisMap>,
    pub(crate) change: Change,
}

/// The change of the node itself.
#[derive(Debug)]
pub(crate) enum Change {
    Nothing,
    /// Another axis attribute.
    Axis(i64),
    /// Another attribute with several axes.
    Axes(&'static str, Vec<i64>),
    /// Another operand.
    Operand(usize, Tensor),
    /// Other axes for `Shape`: the node returns all sizes, and these elements are selected.
    Sizes(Vec<i64>),
}

impl Change {
    /// Changes `node`. `constant` adds a constant to the graph. Several [`Change::Sizes`] need another
    /// node, which the caller adds.
    pub(crate) fn apply(&self, node: &mut Node, constant: impl FnOnce(Tensor) -> ValueId) {
        match self {
            Change::Nothing => {}
            Change::Axis(axis) => set_attr(&mut node.attrs, "axis", Attr::Int(*axis)),
            Change::Axes(name, axes) => set_attr(&mut node.attrs, name, Attr::Ints(axes.clone())),
            Change::Operand(index, tensor) => {
                node.inputs.resize(node.inputs.len().max(index + 1), None);
                node.inputs[*index] = Some(constant(tensor.clone()));
            }
            Change::Sizes(axes) => {
                node.attrs = Attrs::new();
                if let [axis] = **axes {
                    node.attrs = onnx::attrs! { start: axis, end: axis + 1 };
                }
            }
        }
    }
}

/// Sets an attribute.
pub(crate) fn set_attr(attrs: &mut Attrs, name: &'static str, value: Attr) {
    match attrs.iter_mut().find(|(key, _)| *key == name) {
        Some((_, old)) => *old = value,
        None => attrs.push((name, value)),
    }
}

impl Pushed {
    /// Emits the changed copy of `node`, on the operands that `moved` returns.
    pub(crate) fn emit(
        &self,
        m: &mut Match<'_>,
        node: &Node,
        mut moved: impl FnMut(&mut Match<'_>, ValueId) -> Result<ValueId, Skip>,
    ) -> Result<ValueId, Skip> {
        let mut node = node.clone();
        for &index in &self.operands {
            if let Some(value) = &mut node.inputs[index] {
                *value = moved(m, *value)?;
            }
        }
        self.change.apply(&mut node, |tensor| m.tensor(tensor));
        m.like(&node, node.inputs.clone())
    }
}

/// Returns the changes that let `node` work on operands moved by `map`, if it can.
pub(crate) fn push(graph: &Graph, node: &Node, map: &AxisMap) -> Option<Pushed> {
    let rank = map.rank();
    let axes = node.operator().axes;
    // Only broadcasting operators may have operands of lower rank. Their results have the full
    // rank.
    let whole = if axes == Axes::Elementwise { *node.outputs.first()? } else { node.input(0)? };
    if graph.ty(whole).rank() != rank {
        return None;
    }
    let ints = |index: usize| graph.constant(node.input(index)?)?.to_i64s();
    let axes_to =
        |axes: &[i64]| axes.iter().map(|axis| map.axis(*axis)).collect::<Option<Vec<_>>>();
    let axis_to = |default: i64| Some(Change::Axis(map.axis(node.int("axis", default))?));
    let operand = |index: usize, axes: &[i64]| Change::Operand(index, Tensor::i64s(axes));
    let one = |change| Some(Pushed { operands: vec![0], results: None, change });
    match axes {
        Axes::Elementwise | Axes::Concat => {
            let operands = (0..node.inputs.len()).filter(|&i| node.input(i).is_some()).collect();
            let change = if axes == Axes::Concat { axis_to(0)? } else { Change::Nothing };
            Some(Pushed { operands, results: None, change })
        }
        Axes::First => one(Change::Nothing),
        Axes::Along(default) => one(axis_to(default)?),
        Axes::Softmax => one(axis_to(-1)?),
        Axes::Gather => {
            let indices = graph.ty(node.input(1)?).rank();
            (indices == 1).then_some(())?;
            one(axis_to(0)?)
        }
        Axes::Reduce | Axes::ArgReduce => {
            let reduced = graph.facts().reduced_axes(node)?;
            let mut new = axes_to(&reduced.iter().map(|axis| *axis as i64).collect::<Vec<_>>())?;
            new.sort_unstable();
            let results = (node.int("keepdims", 1) == 0).then(|| map.of_others(&reduced));
            let change = match axes {
                Axes::Reduce => node.input(1).map(|_| operand(1, &new))?,
                _ => Change::Axis(*new.first()?),
            };
            Some(Pushed { operands: vec![0], results, change })
        }
        Axes::AxesAt(index) => {
            let axes = match node.input(index) {
                Some(_) => ints(index)?,
                None => {
                    let count = graph.ty(node.input(1)?).shape.first()?.as_known()?;
                    (0..count).collect()
                }
            };
            one(operand(index, &axes_to(&axes)?))
        }
        Axes::Pad => {
            if node.input(3).is_some() {
                return one(operand(3, &axes_to(&ints(3)?)?));
            }
            let Some(pads) = ints(1) else {
                let axes: Vec<i64> = (0..rank).map(|axis| axis as i64).collect();
                return one(operand(3, &axes_to(&axes)?));
            };
            let (before, behind) = pads.split_at_checked(rank).filter(|_| map.is_permutation())?;
            one(operand(1, &[map.apply(before), map.apply(behind)].concat()))
        }
        Axes::MatMul => {
            // A product with a matrix needs one axis in front, and one with a batch of matrices all
            // the axes that both operands have.
            let (&[first, ..], [.., last]) = (map.sources(), map.sources()) else { return None };
            let right = graph.ty(node.input(1)?).rank();
            let shared: Vec<usize> = (rank.checked_sub(right)?..rank).collect();
            let is_free = match right {
                2 => first == 0 && 0 < *last && last + 1 == rank,
                _ => right > 2 && map.sources().ends_with(&shared),
            };
            is_free.then(|| one(Change::Nothing))?
        }
        Axes::Resize => {
            let of_region = node.attr("coordinate_transformation_mode").is_some_and(
                |mode| matches!(mode, Attr::String(mode) if &**mode == "tf_crop_and_resize"),
            );
            // Kernels interpolate along the last two axes, and along others only in some cases.
            let interpolates = node
                .attr("mode")
                .is_some_and(|mode| matches!(mode, Attr::String(mode) if &**mode != "nearest"));
            if of_region || interpolates {
                return None;
            }
            if let Some(axes) = node.ints("axes") {
                return one(Change::Axes("axes", axes_to(axes)?));
            }
            // Of the three operands after the first, two are missing or empty.
            let index = if node.input(3).is_some() { 3 } else { 2 };
            let factors = graph.constant(node.input(index)?)?;
            one(Change::Operand(index, each_axis(factors, map)?))
        }
        Axes::EachAxis(index) => {
            let numbers = graph.constant(node.input(index)?)?;
            one(Change::Operand(index, each_axis(numbers, map)?))
        }
        Axes::AxisAt(index) => {
            let operand = graph.constant(node.input(index)?)?;
            let axis = map.axis(*operand.to_i64s()?.first()?)?;
            let axis = Tensor::int_scalar(operand.dtype(), i128::from(axis))?;
            one(Change::Operand(index, axis.reshaped(operand.shape()).ok()?))
        }
        Axes::Shape => {
            let count = i64::try_from(rank).ok()?;
            let place = |at: i64| (if at < 0 { at + count } else { at }).clamp(0, count);
            let (start, end) = (place(node.int("start", 0)), place(node.int("end", count)));
            let change = Change::Sizes(axes_to(&(start..end).collect::<Vec<_>>())?);
            let results = Some(AxisMap::permutation(vec![0]));
            Some(Pushed { operands: vec![0], results, change })
        }
        Axes::Reshape | Axes::Transpose | Axes::Opaque => None,
    }
}

/// Moves a vector with one element per axis.
fn each_axis(numbers: &Tensor, map: &AxisMap) -> Option<Tensor> {
    let bytes = numbers.bytes()?;
    let width = bytes.len().checked_div(numbers.len())?;
    let elements: Vec<&[u8]> = bytes.chunks_exact(width.max(1)).collect();
    (elements.len() == map.rank() && map.is_permutation()).then_some(())?;
    let bytes = map.apply(&elements).concat();
    Tensor::new(numbers.dtype(), numbers.shape(), std::sync::Arc::new(bytes)).ok()
}
