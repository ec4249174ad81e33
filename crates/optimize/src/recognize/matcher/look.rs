//! A quick look before a search: whether the operators are right, wherever their operands lie and
//! whatever the names stand for. It tells most places apart.

use onnx::{Graph, ValueId};

use super::{is_commutative, is_reduction, is_transparent};
use crate::movement::is_movement;
use crate::recognize::pattern::{Node, Pattern, respelled};

/// How many operators deep to look. What differs usually differs here.
const DEPTH: usize = 5;

/// Whether `node` may be what `pattern` says. Its own operator is known to be right.
pub(in crate::recognize) fn may_be(graph: &Graph, node: &onnx::Node, pattern: &Node) -> bool {
    are_operands(graph, node, pattern, DEPTH)
}

fn are_operands(graph: &Graph, node: &onnx::Node, pattern: &Node, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    let is = |value: &Option<ValueId>, pattern| {
        value.is_some_and(|value| is_operand(graph, value, pattern, depth))
    };
    match (node.inputs.as_slice(), pattern.args.as_slice()) {
        ([x, ..], [operand, Pattern::Hole(_)]) if is_reduction(node.op.name) => is(x, operand),
        ([a, b], [first, second]) if is_commutative(node.op.name) => {
            is(a, first) && is(b, second) || is(b, first) && is(a, second)
        }
        (inputs, args) => {
            inputs.len() == args.len() && inputs.iter().zip(args).all(|(v, arg)| is(v, arg))
        }
    }
}

fn is_operand(graph: &Graph, value: ValueId, pattern: &Pattern, depth: usize) -> bool {
    let is_one_of = |ops: &[&str]| behind(graph, value, |node| ops.contains(&node.op.name));
    match pattern {
        Pattern::Value(_) | Pattern::Optional(_) | Pattern::Count(_) => true,
        Pattern::Number(_) | Pattern::Hole(_) => is_constant(graph, value),
        Pattern::Spread(_) | Pattern::Interleaved(_) => is_one_of(&["Reshape"]),
        Pattern::Part(..) => is_one_of(&["Gather", "Slice", "Split"]),
        Pattern::Moved(inner) => {
            is_operand(graph, value, inner, depth) || behind(graph, value, is_movement)
        }
        Pattern::Word(_, patterns) => {
            patterns.iter().any(|pattern| is_operand(graph, value, pattern, depth))
        }
        Pattern::Node(pattern) => behind(graph, value, |node| {
            let op = node.op.name;
            let same =
                op == pattern.op || respelled(pattern.op) == Some(op) && pattern.ends_in_constant();
            same && are_operands(graph, node, pattern, depth)
        }),
    }
}

/// Whether `test` holds for what computes `value`, or for a node that the matcher may find behind it.
fn behind(graph: &Graph, value: ValueId, test: impl Fn(&onnx::Node) -> bool) -> bool {
    let mut value = value;
    loop {
        let Some(node) = graph.producer(value).map(|id| graph.node(id)) else { return false };
        if test(node) {
            return true;
        }
        match node.input(0) {
            Some(source) if is_transparent(node.op.name) => value = source,
            _ => return false,
        }
    }
}

/// Whether `value` is a constant, perhaps with other axes.
fn is_constant(graph: &Graph, value: ValueId) -> bool {
    let mut value = value;
    loop {
        let Some(node) = graph.producer(value).map(|id| graph.node(id)) else {
            return graph.constant(value).is_some();
        };
        match node.input(0) {
            Some(source) if is_transparent(node.op.name) => value = source,
            _ => return false,
        }
    }
}
