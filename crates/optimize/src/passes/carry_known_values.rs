//! Carries values between iterations instead of recomputing them: an iteration may compute from its
//! initial state the same value that the previous iteration computed from its final state. The
//! condition of a `while_loop` is computed at the end of each iteration, often from the values that
//! the next iteration starts with.

use onnx::{Graph, NodeId, Use, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::common_subexpressions::{computes_alike, is_repeatable};
use crate::loops::Loop;
use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "carry_known_values", run };

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    for id in Loop::all(edit.graph()) {
        let Some(found) = Loop::at(edit.graph(), id) else { continue };
        let Some(known) = Known::of(edit.graph(), &found) else { continue };
        if !edit.spend(PASS.name) {
            return Ok(changed);
        }
        known.carry(edit, &found)?;
        changed = Changed::Yes;
    }
    Ok(changed)
}

/// The values that a loop already knows from the previous iteration.
struct Known {
    /// The nodes that recompute them, in order.
    nodes: Vec<NodeId>,
    /// The results of these nodes that other nodes read, and their counterparts in the next
    /// iteration.
    read: Vec<(ValueId, ValueId)>,
}

impl Known {
    /// Returns `None` if nothing would be gained.
    fn of(graph: &Graph, found: &Loop) -> Option<Self> {
        let body: Vec<NodeId> = graph.nodes_of(found.body).collect();
        let state = found.state(graph);
        // The counterpart of each value in the next iteration.
        let mut next: FxHashMap<ValueId, ValueId> =
            state.iter().map(|carried| (carried.inside, carried.next)).collect();
        let mut by_operands: FxHashMap<&[Option<ValueId>], Vec<NodeId>> = FxHashMap::default();
        for &id in &body {
            by_operands.entry(&graph.node(id).inputs).or_default().push(id);
        }
        let mut nodes = Vec::new();
        for &id in &body {
            let node = graph.node(id);
            if !is_repeatable(node) || node.blocks().next().is_some() {
                continue;
            }
            let later = |operand: &Option<ValueId>| match operand {
                Some(value) if found.is_inside(graph, *value) => next.get(value).copied().map(Some),
                outer => Some(*outer),
            };
            let Some(operands) = node.inputs.iter().map(later).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let repeats = |other: &&NodeId| {
                **other != id
                    && computes_alike(graph, id, **other)
                    && !found.returns(graph, **other)
            };
            let alike = by_operands.get(operands.as_slice());
            let Some(&later) = alike.and_then(|alike| alike.iter().find(repeats)) else {
                continue;
            };
            let results = node.outputs.iter().copied();
            next.extend(results.zip(graph.node(later).outputs.iter().copied()));
            nodes.push(id);
        }
        let is_known: FxHashSet<NodeId> = nodes.iter().copied().collect();
        let results = nodes.iter().flat_map(|id| graph.node(*id).outputs.iter().copied());
        let read: Vec<_> = results
            .filter(|value| {
                graph.value(*value).uses().any(|place| match place {
                    Use::Operand(reader, _) => !is_known.contains(&reader),
                    Use::Output(..) => true,
                })
            })
            .filter_map(|value| Some((value, *next.get(&value)?)))
            .collect();
        // Known values must be computed by a node that is not removed.
        let stays = |(_, later): &(ValueId, ValueId)| {
            graph.producer(*later).is_some_and(|node| !is_known.contains(&node))
        };
        (nodes.len() > read.len() && read.iter().all(stays)).then_some(Self { nodes, read })
    }

    /// Makes the loop carry the values.
    fn carry(self, edit: &mut Editor<'_>, found: &Loop) -> Result<(), Error> {
        let state = found.state(edit.graph());
        let mut first: FxHashMap<ValueId, ValueId> =
            state.iter().map(|carried| (carried.inside, carried.initial)).collect();
        for id in &self.nodes {
            let graph = edit.graph();
            let node = graph.node(*id);
            let known = |value: &ValueId| *first.get(value).unwrap_or(value);
            let operands = node.inputs.iter().map(|v| v.as_ref().map(known)).collect();
            let copied = (node.op, operands, node.attrs.clone());
            let types = node.outputs.iter().map(|v| graph.ty(*v).clone()).collect();
            let results = node.outputs.clone();
            let new = edit.add_like(*id, found.id, copied, types);
            first.extend(results.into_iter().zip(edit.graph().node(new).outputs.clone()));
        }
        let more: Vec<_> = self.read.iter().map(|(value, later)| (first[value], *later)).collect();
        let inside = found.carry(edit, PASS.name, |_| true, &more)?;
        let carried: FxHashMap<_, _> =
            self.read.iter().map(|(value, _)| *value).zip(inside).collect();
        for id in self.nodes.into_iter().rev() {
            let Some(node) = edit.graph().get(id) else { continue };
            let results = node.outputs.iter();
            let with: Vec<_> = results.map(|v| *carried.get(v).unwrap_or(v)).collect();
            edit.replace(PASS.name, id, &with, &[])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::PASS;
    use crate::testing::passes_to;

    const INPUTS: &str = "float[2] x, float limit, bool go";

    #[test]
    fn a_residual_is_computed_once_per_iteration() {
        passes_to(
            &PASS,
            &format!(
                "g ({INPUTS}) => (float[2] y) {{
                    y = Loop (, go, x) <
                        body = body (int64 i, bool c, float[2] a) => (bool d, float[2] b) {{
                            s = Mul (a, a) r = Sub (s, x) q = Div (r, a) b = Sub (a, q)
                            t = Mul (b, b) u = Sub (t, x) m = ReduceMax <keepdims = 0> (u)
                            d = Greater (m, limit)
                        }}
                    >
                }}"
            ),
            &format!(
                "g ({INPUTS}) => (float[2] y) {{
                    v0 = Mul (x, x) v1 = Sub (v0, x)
                    y, v2 = Loop (, go, x, v1) <
                        body = body (int64 i, bool c, float[2] a, float[2] v3)
                            => (bool d, float[2] b, float[2] u) {{
                            q = Div (v3, a) b = Sub (a, q)
                            t = Mul (b, b) u = Sub (t, x) m = ReduceMax <keepdims = 0> (u)
                            d = Greater (m, limit)
                        }}
                    >
                }}"
            ),
        );
    }

    #[test]
    fn one_node_is_not_worth_a_carried_value() {
        let text = format!(
            "g ({INPUTS}) => (float[2] y) {{
                y = Loop (, go, x) <
                    body = body (int64 i, bool c, float[2] a) => (bool d, float[2] b) {{
                        s = Mul (a, a) b = Sub (s, x)
                        t = Mul (b, b) m = ReduceMax <keepdims = 0> (t) d = Greater (m, limit)
                    }}
                >
            }}"
        );
        passes_to(&PASS, &text, &text);
    }

    /// The loop returns the value of each iteration, which is another one than it starts with.
    #[test]
    fn values_that_the_body_returns_are_computed_again() {
        let text = "g (float[2] x, float[4,2] xs) => (float[2] y, float[4,2] all) {
            y, all = Scan <num_scan_inputs = 1,
                body = body (float[2] a, float[2] k) => (float[2] b, float[2] u) {
                    s = Mul (a, a) r = Sub (s, x) q = Div (r, a) b = Sub (k, q)
                    t = Mul (b, b) u = Sub (t, x)
                }
            > (x, xs)
        }";
        passes_to(&PASS, text, text);
    }
}
