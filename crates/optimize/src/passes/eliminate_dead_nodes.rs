//! Removes nodes and subgraph results that are never read, and functions that are never called.

use onnx::{BlockId, Function, Graph, Node, NodeId, Op};
use rustc_hash::FxHashMap;

use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "eliminate_dead_nodes", run };

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    let nodes = edit.graph().all_nodes();
    for id in nodes.into_iter().rev() {
        let Some(node) = edit.graph().get(id) else { continue };
        let used = |v: &_| edit.graph().value(*v).is_used();
        let (any, all) = (node.outputs.iter().any(used), node.outputs.iter().all(used));
        if !any {
            if !edit.spend(PASS.name) {
                return Ok(changed);
            }
            edit.remove_dead(id);
            changed = Changed::Yes;
        } else if !all && let Some(first) = first_free_result(node) {
            changed |= prune(edit, id, first);
        }
    }
    changed |= remove_uncalled_functions(edit);
    Ok(changed)
}

/// Returns the index of the first result of a node that can be removed together with a result of
/// its subgraphs. Also returns the number of subgraph results before the one that corresponds to
/// the node's first result.
fn first_free_result(node: &Node) -> Option<(usize, usize)> {
    // The loop itself reads the values that it carries, so only stacked results can be removed.
    let first = match node.op {
        Op { domain: "", name: "If" } => (0, 0),
        Op { domain: "", name: "Loop" } => (node.inputs.len().checked_sub(2)?, 1),
        _ => return None,
    };
    (node.outputs.len() > first.0).then_some(first)
}

/// Rebuilds the node without its unread results, starting at `first`.
fn prune(edit: &mut Editor<'_>, id: NodeId, (first, offset): (usize, usize)) -> Changed {
    let graph = edit.graph();
    let node = graph.node(id);
    let is_kept = |i: usize| i < first || graph.value(node.outputs[i]).is_used();
    let kept: Vec<usize> = (0..node.outputs.len()).filter(|&i| is_kept(i)).collect();
    if kept.len() == node.outputs.len() || !edit.spend(PASS.name) {
        return Changed::No;
    }
    let graph = edit.graph_mut();
    let mut dropped = Vec::new();
    for block in graph.node(id).blocks().collect::<Vec<BlockId>>() {
        let old = graph.block(block).outputs().to_vec();
        let is_kept = |i: usize| i < offset || kept.binary_search(&(i - offset)).is_ok();
        let (new, rest): (Vec<_>, Vec<_>) =
            old.into_iter().enumerate().partition(|(i, _)| is_kept(*i));
        dropped.extend(rest.into_iter().filter_map(|(_, value)| graph.producer(value)));
        graph.set_outputs(block, &new.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
    }
    // The subgraphs move to the new node. Removing the old one must not remove them.
    let attrs = std::mem::take(edit.attrs_mut(id));
    let graph = edit.graph();
    let node = graph.node(id);
    let (op, inputs) = (node.op, node.inputs.clone());
    let old: Vec<_> = kept.iter().map(|&i| node.outputs[i]).collect();
    let types = old.iter().map(|v| graph.ty(*v).clone()).collect();
    let new = edit.remake(id, (op, inputs, attrs), types);
    for (old, new) in old.into_iter().zip(edit.graph().node(new).outputs.clone()) {
        let content = edit.graph().value(old).content.clone();
        edit.graph_mut().set_content(new, content);
        edit.graph_mut().move_name(old, new);
        edit.replace_uses(old, new);
    }
    edit.remove(id, &[new]);
    dropped.into_iter().for_each(|node| edit.remove_dead(node));
    Changed::Yes
}

fn remove_uncalled_functions(edit: &mut Editor<'_>) -> Changed {
    let graph = edit.graph();
    let mut calls: FxHashMap<Op, usize> = graph.functions.iter().map(|f| (f.op, 0)).collect();
    if calls.is_empty() {
        return Changed::No;
    }
    for id in graph.all_nodes() {
        calls.entry(graph.node(id).op).and_modify(|n| *n += 1);
    }
    let uncalled = graph.functions.iter().filter(|f| calls[&f.op] == 0);
    let mut uncalled: Vec<Function> = uncalled.cloned().collect();
    let bodies: FxHashMap<Op, BlockId> = graph.functions.iter().map(|f| (f.op, f.body)).collect();
    let mut changed = Changed::No;
    while let Some(Function { op, body }) = uncalled.pop() {
        if !edit.spend(PASS.name) {
            break;
        }
        changed = Changed::Yes;
        for callee in ops_within(edit.graph(), body) {
            if let (Some(count), Some(&body)) = (calls.get_mut(&callee), bodies.get(&callee)) {
                *count -= 1;
                if *count == 0 {
                    uncalled.push(Function { op: callee, body });
                }
            }
        }
        edit.clear_block(body);
        edit.graph_mut().functions.retain(|f| f.op != op);
    }
    changed
}

/// Returns the operators of a block and of all subgraphs in it.
fn ops_within(graph: &Graph, body: BlockId) -> Vec<Op> {
    let (mut ops, mut blocks) = (Vec::new(), vec![body]);
    while let Some(block) = blocks.pop() {
        for node in graph.nodes_of(block).map(|id| graph.node(id)) {
            ops.push(node.op);
            blocks.extend(node.blocks());
        }
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::PASS;
    use crate::testing::passes_to;

    #[test]
    fn unread_nodes_are_removed() {
        passes_to(
            &PASS,
            "g (float[2] x) => (float[2] y) {
                a = Exp (x)
                b = Neg (a)
                i = Constant <value_ints: ints = [1, 1]> ()
                c, d = Split <axis = 0> (b, i)
                y = Neg (x)
            }",
            "g (float[2] x) => (float[2] y) { y = Neg (x) }",
        );
    }

    #[test]
    fn unread_results_of_branches_are_removed() {
        passes_to(
            &PASS,
            "g (bool c, float[2] x) => (float[2] y) {
                t = Exp (x)
                u, y, w = If (c) <
                    then_branch = then_branch () => (float[2] a, float[2] b, float[2] d) {
                        a = Exp (t) b = Neg (x) d = Sin (b)
                    },
                    else_branch = else_branch () => (float[2] e, float[2] f, float[2] h) {
                        e = Neg (x) f = Exp (x) h = Cos (e)
                    }
                >
            }",
            "g (bool c, float[2] x) => (float[2] y) {
                y = If (c) <
                    then_branch = then_branch () => (float[2] b) { b = Neg (x) },
                    else_branch = else_branch () => (float[2] f) { f = Exp (x) }
                >
            }",
        );
    }

    #[test]
    fn a_loop_keeps_its_carried_values() {
        let text = |results: &str, declared: &str, node: &str| {
            format!(
                "g (float[2] x) => (float[2] y) {{
                    n = Constant <value_int = 3> ()
                    k = Constant <value = bool {{1}}> ()
                    {results} = Loop (n, k, x, x) <
                        body = body (int64 i, bool c, float[2] a, float[2] b)
                            => (bool d, float[2] e, float[2] f{declared}) {{
                            d = Identity (c) e = Neg (b) f = Exp (a) {node}
                        }}
                    >
                }}"
            )
        };
        passes_to(&PASS, &text("y, t, u", ", float[2] h", "h = Cos (a)"), &text("y, t", "", ""));
    }

    #[test]
    fn uncalled_functions_are_removed() {
        passes_to(
            &PASS,
            "g (float[2] x) => (float[2] y) { y = local.a (x) t = local.c (x) }
            <domain: \"local\"> a (float[2] p) => (float[2] q) { q = Neg (p) }
            <domain: \"local\"> b (float[2] r) => (float[2] s) { s = Exp (r) }
            <domain: \"local\"> c (float[2] u) => (float[2] v) { v = local.b (u) }",
            "g (float[2] x) => (float[2] y) { y = local.a (x) }
            <domain: \"local\"> a (float[2] p) => (float[2] q) { q = Neg (p) }",
        );
    }
}
