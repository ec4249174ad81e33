//! Moves loop-invariant nodes in front of the loop.

use onnx::{Graph, NodeId};

use super::common_subexpressions::is_repeatable;
use crate::loops::Loop;
use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "hoist_invariants", run };

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    // Nodes that leave an inner loop may leave the outer one as well.
    for at in Loop::all(edit.graph()) {
        let Some(found) = Loop::at(edit.graph(), at) else { continue };
        for id in edit.graph().nodes_of(found.body).collect::<Vec<_>>() {
            if !is_invariant(edit.graph(), &found, id) {
                continue;
            }
            if !edit.spend(PASS.name) {
                return Ok(changed);
            }
            edit.move_node(id, found.id);
            changed = Changed::Yes;
        }
    }
    Ok(changed)
}

/// Returns `true` if a node of the body can be moved in front of the loop. Results of the body stay
/// inside.
fn is_invariant(graph: &Graph, found: &Loop, id: NodeId) -> bool {
    is_repeatable(graph.node(id))
        && !found.returns(graph, id)
        && found.varying_operands(graph, id).is_empty()
}

#[cfg(test)]
mod tests {
    use super::PASS;
    use crate::testing::passes_to;

    #[test]
    fn invariant_nodes_are_hoisted() {
        passes_to(
            &PASS,
            "g (float[2] w, float[2] x, float[4,2] xs) => (float[2] y) {
                y = Scan <num_scan_inputs = 1, body = body (float[2] a, float[2] b) => (float[2] f) {
                    c = Exp (w) d = Neg (c) e = Mul (b, d) f = Add (a, e)
                }> (x, xs)
            }",
            "g (float[2] w, float[2] x, float[4,2] xs) => (float[2] y) {
                c = Exp (w) d = Neg (c)
                y = Scan <num_scan_inputs = 1, body = body (float[2] a, float[2] b) => (float[2] f) {
                    e = Mul (b, d) f = Add (a, e)
                }> (x, xs)
            }",
        );
    }

    #[test]
    fn nested_loops_are_left_one_at_a_time() {
        passes_to(
            &PASS,
            "g (float[2] w, float[2] x, float[4,3,2] xs) => (float[2] y) {
                y = Scan <num_scan_inputs = 1, body = outer (float[2] a, float[3,2] b) => (float[2] f) {
                    f = Scan <num_scan_inputs = 1, body = inner (float[2] h, float[2] i) => (float[2] j) {
                        c = Exp (w) d = Mul (a, c) e = Mul (i, d) j = Add (h, e)
                    }> (a, b)
                }> (x, xs)
            }",
            "g (float[2] w, float[2] x, float[4,3,2] xs) => (float[2] y) {
                c = Exp (w)
                y = Scan <num_scan_inputs = 1, body = outer (float[2] a, float[3,2] b) => (float[2] f) {
                    d = Mul (a, c)
                    f = Scan <num_scan_inputs = 1, body = inner (float[2] h, float[2] i) => (float[2] j) {
                        e = Mul (i, d) j = Add (h, e)
                    }> (a, b)
                }> (x, xs)
            }",
        );
    }

    #[test]
    fn random_and_returned_values_are_not_hoisted() {
        let text = "g (float[2] w, float[2] x, float[4,2] xs) => (float[2] y, float[4,2] z) {
            y, z = Scan <num_scan_inputs = 1, body = body (float[2] a, float[2] b)
                => (float[2] f, float[2] c) { c = Exp (w) f = Add (a, b) }
            > (x, xs)
        }";
        passes_to(&PASS, text, text);
    }
}
