//! How a model is written for opsets that are older than its operators.
//!
//! Everything before knows operators in their present form. Those that an opset lacks are replaced
//! while nodes are legalised (`equivalents/`), since the replacement has to be legalised, too. Operands
//! that used to be attributes are moved at the very end, where no pass looks at them any more.

mod spellings;

use onnx::operators::{Axes, Operator};
use onnx::schema;
use onnx::{Graph, Node, NodeId, Op, Use};
use rustc_hash::FxHashSet;

use super::equivalents::{Equivalent, Lack, float_order};
use super::{Error, Work};
use crate::Roots;

/// Operators that older opsets write in another way.
struct Change {
    ops: Roots,
    /// The first opset with the present form.
    since: i64,
    /// Writes a node in the form before, if it is not valid in both.
    spell: fn(&mut Work<'_>, NodeId) -> Result<(), Lack>,
}

static CHANGES: &[Change] = &[
    Change { ops: Roots::Named(&["DFT"]), since: 20, spell: spellings::axis_of_dft },
    Change { ops: Roots::Named(&["Pad"]), since: 18, spell: spellings::all_axes },
    Change { ops: Roots::With(takes_axes), since: 18, spell: spellings::axes_attribute },
    Change { ops: Roots::Named(&["Reshape"]), since: 14, spell: spellings::zeros_that_copy },
    Change { ops: Roots::Named(&["Shape"]), since: 15, spell: spellings::slice_of_shape },
    Change { ops: Roots::Named(&["Split"]), since: 18, spell: spellings::equal_parts },
];

/// Returns `true` for reductions whose axes became an operand in opset 18. Those of `ReduceSum` were one before.
fn takes_axes(op: &Operator) -> bool {
    op.axes == Axes::Reduce && op.name != "ReduceSum"
}

/// An operator that computes with what an older opset lacks, and has a form without it.
struct Simpler {
    /// The operator that may be lacking.
    lacking: &'static str,
    /// The operator that reads what comes of it.
    op: &'static str,
    /// Whether a node is of this kind.
    applies: fn(&Graph, &Node) -> bool,
    /// Its form without, which depends on whether there is double precision.
    form: fn(bool) -> Equivalent,
}

static SIMPLER: &[Simpler] = &[Simpler {
    lacking: "BitCast",
    op: "TopK",
    applies: float_order::orders_floats,
    form: float_order::top_k,
}];

impl Simpler {
    /// The nodes of this kind in a graph, if `opset` lacks what they compute with.
    fn nodes(&self, graph: &Graph, opset: i64) -> Vec<NodeId> {
        if schema::find(&Op::onnx(self.lacking), opset).is_some() {
            return Vec::new();
        }
        let is_one = |id: &NodeId| {
            let node = graph.node(*id);
            node.op.domain.is_empty() && node.is(self.op) && (self.applies)(graph, node)
        };
        graph.all_nodes().into_iter().filter(is_one).collect()
    }
}

/// Whether `op` is written in another way at `opset`.
pub(super) fn is_respelled(op: &'static str, opset: i64) -> bool {
    CHANGES.iter().any(|row| row.ops.has(Op::onnx(op)) && opset < row.since)
}

/// Whether all operators have their present form at `opset`.
pub(super) fn is_present(opset: i64) -> bool {
    CHANGES.iter().all(|row| row.since <= opset)
}

/// The nodes that nothing reads any more once [`simplify`] has written a graph for `opset`.
pub(super) fn dispensable(graph: &Graph, opset: i64) -> FxHashSet<NodeId> {
    let simpler: FxHashSet<_> =
        SIMPLER.iter().flat_map(|simpler| simpler.nodes(graph, opset)).collect();
    let mut found = FxHashSet::default();
    if simpler.is_empty() {
        return found;
    }
    for id in graph.all_nodes().into_iter().rev() {
        let mut uses = graph.node(id).outputs.iter().flat_map(|value| graph.value(*value).uses());
        let is_dropped = |by: Use| match by {
            Use::Operand(node, index) => {
                found.contains(&node) || index == 0 && simpler.contains(&node)
            }
            Use::Output(..) => false,
        };
        if !simpler.contains(&id) && uses.all(is_dropped) {
            found.insert(id);
        }
    }
    found
}

/// Writes operators without what the opset lacks. Comes before that is replaced piece by piece.
pub(super) fn simplify(work: &mut Work<'_>) -> Result<(), Error> {
    let has_double = work.target.has_double(work.opset);
    for simpler in SIMPLER {
        let nodes = simpler.nodes(work.graph, work.opset);
        for id in &nodes {
            match work.replace(*id, (simpler.form)(has_double)) {
                Ok(()) | Err(Lack::Because(_)) => {}
                Err(Lack::Graph(error)) => return Err(error.into()),
            }
        }
        if !nodes.is_empty() {
            work.remove_unread();
        }
    }
    Ok(())
}

/// Writes all nodes in the form of the opset.
pub(super) fn spell(work: &mut Work<'_>) -> Result<(), Error> {
    let opset = work.opset;
    for change in CHANGES.iter().filter(|row| opset < row.since) {
        for id in work.graph.all_nodes() {
            let node = work.graph.node(id);
            if !change.ops.has(node.op) {
                continue;
            }
            let (op, origin) = (node.op.name.to_owned(), Some(node.origin));
            match (change.spell)(work, id) {
                Ok(()) => {}
                Err(Lack::Graph(error)) => return Err(error.into()),
                Err(Lack::Because(reason)) => {
                    let (needs, reason) = (change.since, Some(reason.to_owned()));
                    let error =
                        onnx::Error::OpsetTooOld { op, needs, given: opset, reason, origin };
                    return Err(error.into());
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::CHANGES;
    use onnx::Op;
    use onnx::schema::{OLDEST, find, versions};

    #[test]
    fn the_table_agrees_with_the_schemas() {
        let changes =
            CHANGES.iter().flat_map(|row| row.ops.names().into_iter().map(|op| (op, row.since)));
        for (op, since) in changes {
            let new = find(&Op::onnx(op), since).map(|s| s.since);
            assert_eq!(new, Some(since), "{op}");
            let is_old = versions(&Op::onnx(op)).iter().any(|s| s.since < since);
            assert!(is_old && since > OLDEST, "{op}");
        }
    }
}
