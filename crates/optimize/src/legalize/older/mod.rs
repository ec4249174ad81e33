//! Converts models to opsets that are older than their operators.
//!
//! All earlier stages use the current form of operators. Operators that an opset lacks are replaced
//! during legalisation, because their replacements must be legalised, too. Operands that used to be
//! attributes are converted at the very end, when no pass examines them any more.

mod bitwise;
mod spellings;
mod triangle;

use onnx::schema;
use onnx::{Graph, Node, NodeId, Op, Use};
use rustc_hash::FxHashSet;

use super::equivalents::{Equivalent, Lack, activations, bits, float_order};
use super::{Error, Work};

/// An operator that older opsets lack.
struct Addition {
    op: &'static str,
    /// The first opset that has it.
    since: i64,
    /// The equivalent for older opsets.
    instead: Equivalent,
}

/// An operator that has another form in older opsets.
struct Change {
    op: &'static str,
    /// The first opset with the current form.
    since: i64,
    /// Converts a node to the older form, unless it is valid in both.
    spell: fn(&mut Work<'_>, NodeId) -> Result<(), Lack>,
}

const fn addition(op: &'static str, since: i64, instead: Equivalent) -> Addition {
    Addition { op, since, instead }
}

const fn change(
    op: &'static str,
    since: i64,
    spell: fn(&mut Work<'_>, NodeId) -> Result<(), Lack>,
) -> Change {
    Change { op, since, spell }
}

static ADDITIONS: &[Addition] = &[
    addition("BitCast", 26, bits::bit_cast),
    addition("BitwiseAnd", 18, bitwise::and),
    addition("BitwiseNot", 18, bitwise::not),
    addition("BitwiseOr", 18, bitwise::or),
    addition("BitwiseXor", 18, bitwise::xor),
    addition("HardSwish", 14, activations::hard_swish),
    addition("Mish", 18, activations::mish),
    addition("Swish", 24, activations::swish),
    addition("Trilu", 14, triangle::trilu),
];

static CHANGES: &[Change] = &[
    change("DFT", 20, spellings::axis_of_dft),
    change("Pad", 18, spellings::all_axes),
    change("ReduceL1", 18, spellings::axes_attribute),
    change("ReduceL2", 18, spellings::axes_attribute),
    change("ReduceLogSum", 18, spellings::axes_attribute),
    change("ReduceLogSumExp", 18, spellings::axes_attribute),
    change("ReduceMax", 18, spellings::axes_attribute),
    change("ReduceMean", 18, spellings::axes_attribute),
    change("ReduceMin", 18, spellings::axes_attribute),
    change("ReduceProd", 18, spellings::axes_attribute),
    change("ReduceSumSquare", 18, spellings::axes_attribute),
    change("Reshape", 14, spellings::zeros_that_copy),
    change("Shape", 15, spellings::slice_of_shape),
    change("Split", 18, spellings::equal_parts),
];

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

/// Returns `true` if `op` has another form at `opset`.
pub(super) fn is_respelled(op: &str, opset: i64) -> bool {
    CHANGES.iter().any(|row| row.op == op && opset < row.since)
}

/// Returns `true` if all operators have their current form at `opset`.
pub(super) fn is_present(opset: i64) -> bool {
    CHANGES.iter().all(|row| row.since <= opset)
}

/// Returns the equivalent of `op` at an opset that lacks it.
pub(super) fn find(op: &str, opset: i64) -> Option<Equivalent> {
    let found = ADDITIONS.iter().find(|row| row.op == op && opset < row.since);
    found.map(|row| row.instead)
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

/// Converts operators to forms without the operators that the opset lacks. Runs before these are
/// replaced one by one.
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

/// Converts all nodes to the forms of the opset.
pub(super) fn spell(work: &mut Work<'_>) -> Result<(), Error> {
    let opset = work.opset;
    for change in CHANGES.iter().filter(|row| opset < row.since) {
        for id in work.graph.all_nodes() {
            let node = work.graph.node(id);
            if !node.is(change.op) {
                continue;
            }
            let origin = Some(node.origin);
            match (change.spell)(work, id) {
                Ok(()) => {}
                Err(Lack::Graph(error)) => return Err(error.into()),
                Err(Lack::Because(reason)) => {
                    let (op, needs, reason) =
                        (change.op.to_owned(), change.since, reason.to_owned());
                    let reason = Some(reason);
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
    use super::{ADDITIONS, CHANGES};
    use onnx::Op;
    use onnx::schema::{OLDEST, find, versions};

    #[test]
    fn the_tables_agree_with_the_schemas() {
        for row in ADDITIONS {
            let first = versions(&Op::onnx(row.op)).iter().map(|s| s.since).min();
            assert_eq!(first, Some(row.since), "{}", row.op);
        }
        for row in CHANGES {
            let new = find(&Op::onnx(row.op), row.since).map(|s| s.since);
            assert_eq!(new, Some(row.since), "{}", row.op);
            let is_old = versions(&Op::onnx(row.op)).iter().any(|s| s.since < row.since);
            assert!(is_old && row.since > OLDEST, "{}", row.op);
        }
    }
}
