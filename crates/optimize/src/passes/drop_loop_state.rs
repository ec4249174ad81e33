//! Drops carried values that a loop does not need: values that are loop-invariant, and values that
//! only their own next iteration reads.

use onnx::{Graph, ValueId, collect_operands};
use rustc_hash::FxHashSet;

use crate::loops::{Carried, Loop};
use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "drop_loop_state", run };

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    for id in Loop::all(edit.graph()) {
        let Some(found) = Loop::at(edit.graph(), id) else { continue };
        let graph = edit.graph();
        let state = found.state(graph);
        let needed = needed(graph, &found, &state);
        let stays = |carried: &Carried| is_same(graph, carried);
        let same: Vec<bool> = state.iter().map(stays).collect();
        let is_kept = |k: usize| needed[k] && !same[k];
        if (0..state.len()).all(is_kept) {
            continue;
        }
        if !edit.spend(PASS.name) {
            return Ok(changed);
        }
        for (carried, _) in state.iter().zip(&same).filter(|(_, same)| **same) {
            edit.replace_uses(carried.inside, carried.initial);
        }
        found.carry(edit, PASS.name, is_kept, &[])?;
        changed = Changed::Yes;
    }
    Ok(changed)
}

/// Returns `true` if the value is passed to the next iteration unchanged.
fn is_same(graph: &Graph, carried: &Carried) -> bool {
    let copied = graph.producer(carried.next).map(|id| graph.node(id));
    let copied = copied.filter(|node| node.is("Identity")).and_then(|node| node.input(0));
    carried.next == carried.inside || copied == Some(carried.inside)
}

/// Returns, for each carried value, `true` if it affects a result of the loop that is read.
fn needed(graph: &Graph, found: &Loop, state: &[Carried]) -> Vec<bool> {
    let mut needed: Vec<bool> = state.iter().map(|c| graph.value(c.result).is_used()).collect();
    let mut work: Vec<ValueId> = found.other_results(graph).collect();
    work.extend(state.iter().zip(&needed).filter(|(_, n)| **n).map(|(c, _)| c.next));
    let mut seen: FxHashSet<ValueId> = work.iter().copied().collect();
    while let Some(value) = work.pop() {
        if let Some(k) = state.iter().position(|c| c.inside == value) {
            needed[k] = true;
            work.extend(seen.insert(state[k].next).then_some(state[k].next));
        }
        let Some(node) = graph.producer(value).filter(|_| found.is_inside(graph, value)) else {
            continue;
        };
        let mut operands = Vec::new();
        collect_operands(graph, node, &mut operands);
        work.extend(operands.into_iter().filter(|operand| seen.insert(*operand)));
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::PASS;
    use crate::testing::passes_to;

    #[test]
    fn a_loop_disappears_with_the_unneeded_state_of_another() {
        let inner = "Loop (n, k, x) < body = b (int64 i, bool c, float a) => (bool d, float f) {
            d = Identity (c) f = Mul (a, a) } >";
        passes_to(
            &PASS,
            &format!(
                "g (float x, float w) => (float y) {{
                    n = Constant <value_int = 3> ()
                    k = Constant <value = bool {{1}}> ()
                    s = {inner}
                    u, y = Loop (n, k, s, w) < body = body (int64 j, bool e, float p, float q)
                        => (bool r, float t, float v) {{
                        r = Identity (e) t = Mul (p, p) v = Mul (q, q) }} >
                }}"
            ),
            "g (float x, float w) => (float y) {
                n = Constant <value_int = 3> ()
                k = Constant <value = bool {1}> ()
                y = Loop (n, k, w) < body = body (int64 j, bool e, float q)
                    => (bool r, float v) { r = Identity (e) v = Mul (q, q) } >
            }",
        );
    }

    #[test]
    fn invariant_values_are_not_carried() {
        passes_to(
            &PASS,
            "g (float[2] w, float[2] x) => (float[2] y, float[2] z) {
                n = Constant <value_int = 3> ()
                k = Constant <value = bool {1}> ()
                z, y = Loop (n, k, w, x) <
                    body = body (int64 i, bool c, float[2] a, float[2] b)
                        => (bool d, float[2] e, float[2] f) {
                        d = Identity (c) e = Identity (a) f = Mul (a, b)
                    }
                >
            }",
            "g (float[2] w, float[2] x) => (float[2] y, float[2] z) {
                n = Constant <value_int = 3> ()
                k = Constant <value = bool {1}> ()
                y = Loop (n, k, x) <
                    body = body (int64 i, bool c, float[2] b) => (bool d, float[2] f) {
                        d = Identity (c) f = Mul (w, b)
                    }
                >
                z = Identity (w)
            }",
        );
    }

    #[test]
    fn values_read_only_by_their_next_iteration_are_not_carried() {
        passes_to(
            &PASS,
            "g (float s, float[2] x, float[4,2] xs) => (float[2] y, float[4,2] z) {
                u, y, z = Scan <num_scan_inputs = 1, body = body (float t, float[2] a, float[2] b)
                    => (float v, float[2] e, float[2] f) {
                        v = Add (t, t) e = Add (a, b) f = Exp (e)
                    }
                > (s, x, xs)
            }",
            "g (float s, float[2] x, float[4,2] xs) => (float[2] y, float[4,2] z) {
                y, z = Scan <num_scan_inputs = 1, body = body (float[2] a, float[2] b)
                    => (float[2] e, float[2] f) { e = Add (a, b) f = Exp (e) }
                > (x, xs)
            }",
        );
    }

    #[test]
    fn values_with_other_consumers_are_carried() {
        let text = "g (float[2] s, float[2] x, float[4,2] xs) => (float[2] y) {
            u, y = Scan <num_scan_inputs = 1, body = body (float[2] t, float[2] a, float[2] b)
                => (float[2] v, float[2] e) { v = Neg (t) c = Add (a, b) e = Add (c, t) }
            > (s, x, xs)
        }";
        passes_to(&PASS, text, text);
    }
}
