//! Fast filters that run before a search. They compare operators only, ignoring placement and
//! bindings, and reject most candidates. The first filter compares the operands of a node,
//! summarised once for all patterns. The second one looks a few operators further upstream.

use onnx::operators::{self, Operator, Trait};
use onnx::{Graph, ValueId};

use super::{is_transparent, reduces};
use crate::recognize::pattern::{Node, Pattern, respelled};
use crate::recognize::upstream;

/// The kinds of a node's operands, either as found or as a pattern expects them.
#[derive(Debug)]
pub(crate) struct Seen {
    count: usize,
    /// The kinds of the first three operands. The others are not compared.
    operands: [Kinds; 3],
    /// `true` if the operands may be swapped.
    is_commutative: bool,
}

/// A set of kinds of values: anything, constants, and results of operators, which are identified by
/// a small hash of their names.
type Kinds = u64;

const ANYTHING: Kinds = 1;
const CONSTANT: Kinds = 2;

fn kind(op: &str) -> Kinds {
    let add = |number: u32, byte| number.wrapping_mul(31).wrapping_add(u32::from(byte));
    4 << (op.bytes().fold(0, add) % 62)
}

fn kinds(ops: &[&str]) -> Kinds {
    ops.iter().fold(0, |all, op| all | kind(op))
}

impl Seen {
    fn of(operator: &Operator, operands: impl ExactSizeIterator<Item = Kinds>) -> Self {
        // The axes operand of a reduction is checked later.
        let count = if reduces(operator) { 1 } else { operands.len() };
        let mut first = [ANYTHING; 3];
        first.iter_mut().zip(operands.take(count)).for_each(|(to, kinds)| *to = kinds);
        let is_commutative = count == 2 && operator.has(Trait::Commutative);
        Self { count, operands: first, is_commutative }
    }

    /// Returns `true` if `seen` can match this expectation.
    pub(in crate::recognize) fn may_be(&self, seen: &Seen) -> bool {
        let [a, b, c] = self.operands;
        let [x, y, z] = seen.operands;
        let fit = |x, y| (a & x != 0) & (b & y != 0) & (c & z != 0);
        self.count == seen.count && (fit(x, y) || self.is_commutative && fit(y, x))
    }
}

/// Summarises the operands of a node, including the upstream nodes that the matcher may look
/// through.
pub(in crate::recognize) fn seen(graph: &Graph, node: &onnx::Node) -> Seen {
    let one = |value| match graph.producer(value) {
        Some(id) => kind(graph.node(id).op.name),
        None if graph.tensor(value).is_some() => CONSTANT,
        None => ANYTHING,
    };
    let operand = |value| reachable(graph, value).fold(ANYTHING, |all, value| all | one(value));
    Seen::of(node.operator(), node.inputs.iter().map(|value| value.map_or(0, operand)))
}

/// Summarises the operands that `op`, the root of `pattern`, requires.
pub(in crate::recognize) fn expected(op: &str, pattern: &Node) -> Seen {
    Seen::of(operators::find(op), pattern.args.iter().map(expected_of))
}

fn expected_of(pattern: &Pattern) -> Kinds {
    match pattern {
        Pattern::Value(_) | Pattern::Optional(_) | Pattern::Count(_) => ANYTHING,
        Pattern::Number(_) | Pattern::Hole(_) => CONSTANT,
        Pattern::Spread(_) | Pattern::Interleaved(_) => kinds(REGROUPED),
        Pattern::Part(..) => kinds(PARTS),
        Pattern::Moved(inner) => {
            expected_of(inner) | kinds(&operators::names(Operator::is_movement))
        }
        Pattern::Word(_, patterns) => patterns.iter().fold(0, |all, one| all | expected_of(one)),
        Pattern::Node(node) => {
            let other = respelled(node.op).filter(|_| node.ends_in_constant());
            kind(node.op) | other.map_or(0, kind)
        }
    }
}

/// The last operators of repetition and interleaving.
const REGROUPED: &[&str] = &["Reshape"];

/// The operators that extract parts of values.
const PARTS: &[&str] = &["Gather", "Slice", "Split"];

/// The maximum depth of the lookup, in operators. Most mismatches show up within it.
const DEPTH: usize = 5;

/// Returns `true` if `node` may match `pattern`. Assumes that their operators already match.
pub(in crate::recognize) fn may_be(graph: &Graph, node: &onnx::Node, pattern: &Node) -> bool {
    are_operands(graph, node, pattern, DEPTH)
}

fn are_operands(graph: &Graph, node: &onnx::Node, pattern: &Node, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    let is = |value: &Option<ValueId>, pattern| {
        value.is_some_and(|value| is_operand(graph, value, pattern, depth))
    };
    match (node.inputs.as_slice(), pattern.args.as_slice()) {
        ([x, ..], [operand, Pattern::Hole(_)]) if reduces(node.operator()) => is(x, operand),
        ([a, b], [first, second]) if node.operator().has(Trait::Commutative) => {
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
        Pattern::Spread(_) | Pattern::Interleaved(_) => is_one_of(REGROUPED),
        Pattern::Part(..) => is_one_of(PARTS),
        Pattern::Moved(inner) => {
            is_operand(graph, value, inner, depth) || behind(graph, value, onnx::Node::is_movement)
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

/// Returns `true` if `test` holds for the producer of `value`, or for an upstream node that the
/// matcher may reach through it.
fn behind(graph: &Graph, value: ValueId, test: impl Fn(&onnx::Node) -> bool) -> bool {
    let mut producers = reachable(graph, value).filter_map(|value| graph.producer(value));
    producers.any(|id| test(graph.node(id)))
}

/// Returns `true` if `value` is a constant or a reshaped constant.
fn is_constant(graph: &Graph, value: ValueId) -> bool {
    reachable(graph, value).last().is_some_and(|source| graph.tensor(source).is_some())
}

/// Returns `value` and the upstream values that the matcher may look through to.
fn reachable(graph: &Graph, value: ValueId) -> impl Iterator<Item = ValueId> {
    upstream(graph, value, is_transparent)
}
