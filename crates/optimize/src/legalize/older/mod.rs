//! Converts models to opsets that are older than their operators.
//!
//! All earlier stages use the current form of operators. Operators that an opset lacks are replaced
//! during legalisation (`equivalents/`), because their replacements must be legalised, too. Operands that
//! used to be attributes are converted at the very end, when no pass examines them any more.

mod before_13;
mod spellings;

use onnx::operators::{Axes, Operator};
use onnx::schema;
use onnx::{Graph, Node, NodeId, Op, Use};
use rustc_hash::FxHashSet;

use super::equivalents::{Equivalent, Lack, float_order};
use super::{Error, Legalizer};
use crate::Roots;

/// Operators that have another form in older opsets.
struct Change {
    ops: Roots,
    /// The first opset with the current form.
    since: i64,
    /// Converts a node to the older form, unless it is valid in both.
    spell: fn(&mut Legalizer<'_>, NodeId) -> Result<(), Lack>,
}

/// All changes, newest first: an older form is converted from the one that followed it.
static CHANGES: &[Change] = &[
    Change { ops: Roots::Named(&["DFT"]), since: 20, spell: spellings::axis_of_dft },
    Change { ops: Roots::Named(&["Pad"]), since: 18, spell: spellings::all_axes },
    Change { ops: Roots::With(takes_axes), since: 18, spell: spellings::axes_attribute },
    Change { ops: Roots::Named(&["Split"]), since: 18, spell: spellings::equal_parts },
    Change { ops: Roots::Named(&["Shape"]), since: 15, spell: spellings::slice_of_shape },
    Change { ops: Roots::Named(&["Reshape"]), since: 14, spell: spellings::zeros_that_copy },
    Change { ops: Roots::Named(TAKE_AXES_SINCE_13), since: 13, spell: spellings::axes_attribute },
    Change { ops: Roots::Named(&["Split"]), since: 13, spell: before_13::split_attribute },
    Change { ops: Roots::Named(FLATTEN), since: 13, spell: before_13::last_axis },
    Change { ops: Roots::Named(&["Resize"]), since: 13, spell: before_13::all_operands },
    Change { ops: Roots::Named(&["Clip"]), since: 11, spell: before_13::max_and_min },
    Change { ops: Roots::Named(&["Gemm"]), since: 11, spell: before_13::zero_bias },
    Change { ops: Roots::Named(&["Pad"]), since: 11, spell: before_13::pads_attribute },
    Change { ops: Roots::Named(&["TopK"]), since: 11, spell: before_13::largest },
    Change { ops: Roots::With(has_axis), since: 11, spell: before_13::positive_axis },
    Change { ops: Roots::Named(&["Slice"]), since: 10, spell: before_13::bounds_attributes },
    Change { ops: Roots::Named(&["TopK"]), since: 10, spell: before_13::count_attribute },
];

/// Operators whose axes became an operand in opset 13.
const TAKE_AXES_SINCE_13: &[&str] = &["ReduceSum", "Squeeze", "Unsqueeze"];

/// Returns `true` for reductions whose axes became an operand in opset 18.
fn takes_axes(op: &Operator) -> bool {
    op.axes == Axes::Reduce && !TAKE_AXES_SINCE_13.contains(&op.name)
}

/// Operators that flattened all axes from the given one on before opset 13.
const FLATTEN: &[&str] = &["Hardmax", "LogSoftmax", "Softmax"];

/// Returns `true` for operators whose axes had to be positive before opset 11.
fn has_axis(op: &Operator) -> bool {
    let is_changed = op.versions.iter().any(|schema| schema.since == 11);
    let mut old = op.versions.iter().filter(|schema| schema.since < 11);
    is_changed && old.any(|schema| schema.attr("axis").or(schema.attr("axes")).is_some())
}

/// An operator whose operands are computed by an operator that an older opset lacks, with a form
/// that does not need it.
struct Simpler {
    /// The operator that may be missing.
    lacking: &'static str,
    /// The operator that reads its results.
    op: &'static str,
    /// Returns `true` if the form applies to a node.
    applies: fn(&Graph, &Node) -> bool,
    /// Returns the form without the missing operator, depending on the availability of double
    /// precision.
    form: fn(bool) -> Equivalent,
}

static SIMPLER: &[Simpler] = &[Simpler {
    lacking: "BitCast",
    op: "TopK",
    applies: float_order::orders_floats,
    form: float_order::top_k,
}];

impl Simpler {
    /// Returns the nodes that the form applies to, if `opset` lacks the operator.
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

/// Returns `true` if the operator of `node` has another form at `opset`.
pub(super) fn is_respelled(node: &Node, opset: i64) -> bool {
    CHANGES.iter().any(|row| opset < row.since && row.ops.has(node))
}

/// Returns `true` if all operators have their current form at `opset`.
pub(super) fn is_present(opset: i64) -> bool {
    CHANGES.iter().all(|row| row.since <= opset)
}

/// Returns the nodes that become unused when [`simplify`] converts a graph to `opset`.
pub(super) fn dispensable(graph: &Graph, opset: i64) -> FxHashSet<NodeId> {
    let simpler: FxHashSet<_> =
        SIMPLER.iter().flat_map(|simpler| simpler.nodes(graph, opset)).collect();
    let mut found = FxHashSet::default();
    if simpler.is_empty() {
        return found;
    }
    for id in graph.all_nodes().into_iter().rev() {
        let uses = graph.node(id).outputs.iter().flat_map(|value| graph.value(*value).uses());
        let mut uses = uses.peekable();
        let is_dropped = |by: Use| match by {
            Use::Operand(node, index) => {
                found.contains(&node) || index == 0 && simpler.contains(&node)
            }
            Use::Output(..) => false,
        };
        // Nothing removes a node here that was unused before.
        if !simpler.contains(&id) && uses.peek().is_some() && uses.all(is_dropped) {
            found.insert(id);
        }
    }
    found
}

/// Converts operators to forms without the operators that the opset lacks. Runs before these are
/// replaced one by one.
pub(super) fn simplify(work: &mut Legalizer<'_>) -> Result<(), Error> {
    let has_double = work.target.has_double(work.opset);
    for simpler in SIMPLER {
        let nodes = simpler.nodes(work.graph(), work.opset);
        for id in &nodes {
            if work.graph().get(*id).is_none() {
                continue;
            }
            match work.replace(*id, (simpler.form)(has_double)) {
                Ok(()) | Err(Lack::Because(_)) => {}
                Err(Lack::Graph(error)) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Converts all nodes to the forms of the opset.
pub(super) fn spell(work: &mut Legalizer<'_>) -> Result<(), Error> {
    let opset = work.opset;
    for change in CHANGES.iter().filter(|row| opset < row.since) {
        for id in work.graph().nodes_where(|node| change.ops.has(node)) {
            let Some(node) = work.graph().get(id) else { continue };
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
