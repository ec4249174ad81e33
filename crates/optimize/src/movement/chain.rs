//! Chains of data-movement nodes, and the nodes of a plan that replaces them.

use onnx::{Attrs, Graph, Node, NodeId, Op, ValueId, attrs};
use tensor::Dim;
use tensor::bounds::at_least;

use super::{AxisMap, cost};
use crate::{Match, Skip};

/// The maximum number of nodes of a chain. Longer chains are shortened step by step.
const REACH: usize = 8;

/// One operator of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Movement {
    Transpose(AxisMap),
    /// A reshape from one shape to another.
    Reshape(Vec<Dim>, Vec<Dim>),
}

impl Movement {
    /// Returns the reshape from one shape to another, if it needs no computed sizes.
    pub(crate) fn reshape(from: &[Dim], to: &[Dim]) -> Option<Self> {
        let fits = target(from, to).is_ok() || unit_axes(from, to).is_some();
        fits.then(|| Movement::Reshape(from.to_vec(), to.to_vec()))
    }
}

/// The data-movement nodes between a source and a value, in order of execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) source: ValueId,
    pub(crate) nodes: Vec<NodeId>,
}

impl Chain {
    /// Returns the chain that ends at `value`, within the block of the root.
    pub(crate) fn to(m: &Match<'_>, value: ValueId) -> Self {
        Self::of(m, value, Node::is_movement)
    }

    /// Returns the chain that ends at `value`, with the `Expand` nodes that repeat elements.
    pub(crate) fn with_repeats(m: &Match<'_>, value: ValueId) -> Self {
        Self::of(m, value, |node| node.is_movement() || node.is("Expand"))
    }

    fn of(m: &Match<'_>, value: ValueId, belongs: impl Fn(&Node) -> bool) -> Self {
        let (graph, block) = (m.graph(), m.root().block());
        let mut chain = Chain { source: value, nodes: Vec::new() };
        while chain.nodes.len() < REACH
            && let Some(id) = graph.producer(chain.source)
            && let node = graph.node(id)
            && belongs(node)
            && node.block() == block
            && let Some(source) = node.input(0)
        {
            chain.nodes.push(id);
            chain.source = source;
        }
        chain.nodes.reverse();
        chain
    }

    /// Returns the cost of the chain for one consumer of its end, or for all of them if the end is
    /// `replaced`. The cost of shared nodes is divided among their consumers. Between equal chains,
    /// one with constant shapes is cheaper.
    pub(crate) fn cost(&self, graph: &Graph, replaced: bool) -> u64 {
        let is_constant = graph.tensor(self.source).is_some();
        let (mut cost, mut sharers) = (0, 1);
        for (i, id) in self.nodes.iter().rev().enumerate() {
            let node = graph.node(*id);
            if i > 0 || !replaced {
                let uses = node.outputs.iter().map(|value| graph.value(*value).uses().len());
                sharers *= uses.max().unwrap_or(1).max(1) as u64;
            }
            let computes_shape = node.input(1).is_some_and(|shape| graph.tensor(shape).is_none());
            let cost_of_node = match node.is("Expand") {
                true => cost::REPEAT,
                false => cost::of_node(node.is("Transpose"), is_constant),
            };
            cost += cost_of_node / sharers;
            cost += u64::from(computes_shape);
        }
        cost
    }
}

/// Returns the operand and attributes of a `Reshape` from one shape to the other.
pub(crate) fn target(from: &[Dim], to: &[Dim]) -> Result<(Vec<i64>, Attrs), Skip> {
    let count = |dims: &[Dim]| dims.iter().fold(Dim::Known(1), |n, dim| n * dim.clone());
    Skip::when(count(from) != count(to), "the number of elements is not known to be the same")?;
    let known = Dim::all_known(to);
    if let Some(shape) = known {
        let attrs = if shape.contains(&0) {
            attrs! { allowzero: 1 }
        } else {
            attrs! {}
        };
        return Ok((shape, attrs));
    }
    Skip::when(to.contains(&Dim::Known(0)), "one axis is empty and another is symbolic")?;
    let mut computed = 0;
    let shape = to.iter().enumerate().map(|(i, dim)| match dim.as_known() {
        Some(n) => n,
        // A zero copies the operand's size of the same axis.
        None if from.get(i) == Some(dim) => 0,
        None => {
            computed += 1;
            -1
        }
    });
    let shape: Vec<i64> = shape.collect();
    Skip::when(computed > 1, "several axes are symbolic")?;
    let mut others = to.iter().zip(&shape).filter(|(_, size)| **size != -1);
    if computed == 1 && !others.all(|(dim, _)| at_least(dim, 1)) {
        return Err("nothing can be computed from an axis that may be empty".into());
    }
    Ok((shape, attrs! {}))
}

/// Returns `Squeeze` or `Unsqueeze` and its axes, if the shapes only differ in unit axes.
pub(crate) fn unit_axes(from: &[Dim], to: &[Dim]) -> Option<(&'static str, Vec<i64>)> {
    let added = |short: &[Dim], long: &[Dim]| {
        let (mut axes, mut short) = (Vec::new(), short.iter().peekable());
        for (axis, dim) in (0..).zip(long) {
            if short.next_if_eq(&dim).is_none() {
                if *dim != Dim::Known(1) {
                    return None;
                }
                axes.push(axis);
            }
        }
        short.next().is_none().then_some(axes)
    };
    if from.len() < to.len() {
        Some(("Unsqueeze", added(from, to)?))
    } else {
        Some(("Squeeze", added(to, from)?))
    }
}

/// Emits the steps of a plan. Each step has the origin of the node of the same kind in `old`.
pub(crate) fn emit(
    m: &mut Match<'_>,
    mut value: ValueId,
    steps: &[Movement],
    old: &[NodeId],
) -> Result<ValueId, Skip> {
    let is_change = |step: &&Movement| !matches!(step, Movement::Reshape(from, to) if from == to);
    for step in steps.iter().filter(is_change) {
        let (op, inputs, attrs): (_, Vec<ValueId>, Attrs) = match step {
            Movement::Transpose(perm) => ("Transpose", vec![value], attrs! { perm: perm.attr() }),
            Movement::Reshape(from, to) => match target(from, to) {
                Ok((shape, attrs)) => ("Reshape", vec![value, m.i64s(&shape)], attrs),
                Err(reason) => {
                    let (op, axes) = unit_axes(from, to).ok_or(reason)?;
                    (op, vec![value, m.i64s(&axes)], attrs! {})
                }
            },
        };
        let is_alike = |node: &&Node| node.is("Transpose") == (op == "Transpose");
        let alike = old.iter().map(|id| m.graph().node(*id)).find(is_alike).cloned();
        value = match alike {
            Some(mut node) => {
                (node.op, node.attrs) = (Op::onnx(op), attrs);
                m.like(&node, inputs.into_iter().map(Some).collect())?
            }
            None => m.op(op, &inputs, attrs)?,
        };
    }
    Ok(value)
}

/// Emits the reshape of a value to another shape, or returns the value if it has that shape.
pub(crate) fn reshaped(m: &mut Match<'_>, value: ValueId, to: &[Dim]) -> Result<ValueId, Skip> {
    let from = m.ty(value).shape.clone();
    emit(m, value, &[Movement::Reshape(from, to.to_vec())], &[])
}

/// Emits the transpose of a value, or returns the value if the order of axes stays the same.
pub(crate) fn transposed(
    m: &mut Match<'_>,
    value: ValueId,
    order: AxisMap,
) -> Result<ValueId, Skip> {
    if order.is_identity() {
        return Ok(value);
    }
    emit(m, value, &[Movement::Transpose(order)], &[])
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::{Chain, cost};
    use crate::testing::graph;

    #[test]
    fn shared_nodes_are_paid_by_their_consumers() {
        let graph = graph(
            "g (float[2,3] x) => (float[3,2] u, float[2,3] v, float[2,3] w) {
                a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a)
                u = Exp (a) v = Exp (b) w = Neg (b)
            }",
            &mut Origins::default(),
        );
        let nodes = graph.all_nodes()[..2].to_vec();
        let chain = Chain { source: graph.node(nodes[0]).input(0).unwrap(), nodes };
        assert_eq!(chain.cost(&graph, false), cost::NODE / 2 + cost::NODE / 4);
        assert_eq!(chain.cost(&graph, true), cost::NODE + cost::NODE / 2);
    }
}
