//! Detects maxima that are only subtracted from their own operand before it is exponentiated and
//! summed: in a softmax, its logarithm, or a `logsumexp`. The sum is NaN if an element is, and all
//! visible results depend on the sum. So a maximum that ignores NaN does no harm.

use std::cell::Cell;

use onnx::{Graph, Node, Use, ValueId};
use tensor::Dim;

use super::made_by;

/// Returns `true` if the treatment of NaN in the reduction `node` is not visible.
pub(super) fn is_shift(graph: &Graph, node: &Node) -> bool {
    let is_used = graph.value(node.outputs[0]).is_used();
    is_used && Rows::of(graph, node).is_some_and(|rows| rows.only_shifts(node.outputs[0]))
}

/// The operand of the reduction, and its axes.
struct Rows<'g> {
    graph: &'g Graph,
    x: ValueId,
    axes: Vec<usize>,
    /// The shape of `x` with size one along these axes.
    kept: Vec<Dim>,
    /// The number of consumers that may still be visited. Nested selections may share many
    /// consumers.
    left: Cell<u32>,
}

/// The maximum number of consumers to visit. A `logsumexp` has about twenty.
const READERS: u32 = 100;

/// Returns `true` if the node preserves the order of elements, and their values up to rounding.
fn keeps_order(node: &Node) -> bool {
    node.is_reshape() || node.is("Cast") || node.is("Identity")
}

impl<'g> Rows<'g> {
    fn of(graph: &'g Graph, node: &Node) -> Option<Self> {
        let (x, axes) = (node.input(0)?, graph.facts().reduced_axes(node)?);
        let mut kept = graph.ty(x).shape.clone();
        for axis in &axes {
            *kept.get_mut(*axis)? = Dim::Known(1);
        }
        Some(Self { graph, x: unchanged(graph, x), axes, kept, left: Cell::new(READERS) })
    }

    /// Returns `true` if a number per row is only subtracted from the elements of the row before
    /// they are exponentiated, or added to a value that is NaN if an element is.
    fn only_shifts(&self, shift: ValueId) -> bool {
        self.all_uses(shift, |node, index| match node.op.name {
            "Sub" if index == 1 => {
                let is_same = node.input(0).is_some_and(|x| unchanged(self.graph, x) == self.x);
                is_same && self.is_row(shift) && self.only_exponents(node.outputs[0])
            }
            "Add" => {
                let other = node.input(1 - index.min(1));
                other.is_some_and(|sum| self.is_sum(sum) && self.has_shape_of(sum, shift))
            }
            // A `logsumexp` replaces infinite maxima by zero.
            "IsInf" | "IsNaN" | "Not" | "Or" | "Where" => self.only_shifts(node.outputs[0]),
            _ => keeps_order(node) && self.only_shifts(node.outputs[0]),
        })
    }

    /// Returns `true` if shifted elements are only exponentiated, or reduced by the logarithm of
    /// their sum.
    fn only_exponents(&self, shifted: ValueId) -> bool {
        self.all_uses(shifted, |node, index| match node.op.name {
            "Exp" => self.only_summed(node.outputs[0]),
            "Sub" if index == 0 => self.is_divided_by(node),
            "Cast" | "Identity" => self.only_exponents(node.outputs[0]),
            _ => false,
        })
    }

    /// Returns `true` if exponentials are only summed, or divided by their sum.
    fn only_summed(&self, exponentials: ValueId) -> bool {
        self.all_uses(exponentials, |node, index| match node.op.name {
            "ReduceSum" => self.has_axes_of(node),
            "Div" if index == 0 => self.is_divided_by(node),
            "Cast" | "Identity" => self.only_summed(node.outputs[0]),
            _ => false,
        })
    }

    fn all_uses(&self, value: ValueId, mut is_fine: impl FnMut(&Node, usize) -> bool) -> bool {
        self.graph.value(value).uses().all(|place| match place {
            Use::Operand(id, index) if self.left.get() > 0 => {
                self.left.set(self.left.get() - 1);
                is_fine(self.graph.node(id), index)
            }
            Use::Operand(..) | Use::Output(..) => false,
        })
    }

    fn is_divided_by(&self, node: &Node) -> bool {
        node.input(1).is_some_and(|sum| self.is_sum(sum) && self.is_row(sum))
    }

    /// Returns `true` if `value` is derived from the sum of exponentials.
    fn is_sum(&self, value: ValueId) -> bool {
        let Some(id) = self.graph.producer(value) else { return false };
        let node = self.graph.node(id);
        match node.op.name {
            "ReduceSum" => {
                let exp = node.input(0).map(|from| unchanged(self.graph, from));
                let exp = exp.and_then(|exp| made_by(self.graph, exp, "Exp"));
                exp.is_some() && self.has_axes_of(node)
            }
            op if ["Abs", "Log"].contains(&op) || keeps_order(node) => {
                node.input(0).is_some_and(|from| self.is_sum(from))
            }
            _ => false,
        }
    }

    fn has_axes_of(&self, node: &Node) -> bool {
        self.graph.facts().reduced_axes(node).is_some_and(|axes| axes == self.axes)
    }

    /// Returns `true` if a value has one number per row, aligned with the row.
    fn is_row(&self, value: ValueId) -> bool {
        self.graph.ty(value).shape == self.kept
    }

    fn has_shape_of(&self, one: ValueId, other: ValueId) -> bool {
        self.graph.ty(one).shape == self.graph.ty(other).shape
    }
}

/// Returns the source of `value` before casts.
fn unchanged(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some(id) = graph.producer(value) {
        let node = graph.node(id);
        let Some(from) = node.input(0).filter(|_| node.is("Cast") || node.is("Identity")) else {
            break;
        };
        value = from;
    }
    value
}
