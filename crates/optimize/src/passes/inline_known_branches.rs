//! Replaces an `If` with a constant condition by the nodes of the branch that it takes.

use onnx::{BlockId, Graph, NodeId};

use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "inline_known_branches", run };

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    // Outer nodes come first, so nodes in a branch that is not taken no longer exist when they are
    // visited.
    for id in edit.graph().nodes_with_blocks() {
        let Some(branch) = taken(edit.graph(), id) else { continue };
        if !edit.spend(PASS.name) {
            return Ok(changed);
        }
        let nodes: Vec<_> = edit.graph().nodes_of(branch).collect();
        for node in nodes {
            edit.move_node(node, id);
        }
        let results = edit.graph().block(branch).outputs().to_vec();
        edit.choose(PASS.name, id, &results)?;
        changed = Changed::Yes;
    }
    Ok(changed)
}

/// Returns the branch that the node always takes. A parameter does not count as a constant
/// condition, because users may change it.
fn taken(graph: &Graph, id: NodeId) -> Option<BlockId> {
    let node = graph.get(id).filter(|node| node.is("If"))?;
    let branch = match graph.constant(node.input(0)?)?.splat()? == 0.0 {
        true => "else_branch",
        false => "then_branch",
    };
    node.subgraph(branch)
}

#[cfg(test)]
mod tests {
    use onnx::text::parse;
    use provenance::Origins;

    use super::PASS;
    use crate::testing::passes_to;
    use crate::{Editor, Options};

    #[test]
    fn only_the_taken_branch_remains() {
        for (truth, kept) in [(1, "y = Sin (x)"), (0, "e = Exp (w) y = Mul (e, x)")] {
            passes_to(
                &PASS,
                &format!(
                    "g (float[2] w, float[2] x) => (float[2] y) {{
                        k = Constant <value = bool {{{truth}}}> ()
                        e = Exp (w)
                        y = If (k) <
                            then_branch = t () => (float[2] a) {{ a = Sin (x) }},
                            else_branch = f () => (float[2] b) {{ b = Mul (e, x) }}
                        >
                    }}"
                ),
                &format!("g (float[2] w, float[2] x) => (float[2] y) {{ {kept} }}"),
            );
        }
    }

    #[test]
    fn nested_branches_and_branches_in_loops_are_inlined() {
        passes_to(
            &PASS,
            "g (bool c, float[2] x, float[4,2] xs) => (float[2] y) {
                k = Constant <value = bool {1}> ()
                n = Constant <value = bool {0}> ()
                y = Scan <num_scan_inputs = 1, body = body (float[2] a, float[2] b) => (float[2] f) {
                    f = If (k) <
                        then_branch = t () => (float[2] d) {
                            d = If (n) <
                                then_branch = tt () => (float[2] p) { p = Sin (a) },
                                else_branch = tf () => (float[2] q) {
                                    q = If (c) <
                                        then_branch = i () => (float[2] r) { r = Neg (b) },
                                        else_branch = j () => (float[2] s) { s = Abs (a) }
                                    >
                                }
                            >
                        },
                        else_branch = u () => (float[2] e) {
                            e = If (n) <
                                then_branch = ut () => (float[2] v) { v = Exp (a) },
                                else_branch = uf () => (float[2] w) { w = Exp (b) }
                            >
                        }
                    >
                }> (x, xs)
            }",
            "g (bool c, float[2] x, float[4,2] xs) => (float[2] y) {
                y = Scan <num_scan_inputs = 1, body = body (float[2] a, float[2] b) => (float[2] f) {
                    f = If (c) <
                        then_branch = i () => (float[2] r) { r = Neg (b) },
                        else_branch = j () => (float[2] s) { s = Abs (a) }
                    >
                }> (x, xs)
            }",
        );
    }

    #[test]
    fn parameters_and_computed_conditions_are_decided_at_run_time() {
        let branches = "then_branch = t () => (float[2] a) { a = Sin (x) },
            else_branch = f () => (float[2] b) { b = Cos (x) }";
        let text = format!("g (bool c, float[2] x) => (float[2] y) {{ y = If (c) <{branches}> }}");
        passes_to(&PASS, &text, &text);
        let text = format!(
            "g (float[2] x) => (float[2] y) <bool flag = {{1}}> {{ y = If (flag) <{branches}> }}"
        );
        passes_to(&PASS, &text, &text);
    }

    #[test]
    fn nodes_keep_their_origins() {
        let mut origins = Origins::default();
        let text = "g (float[2] x) => (float[2] y) {
            k = Constant <value = bool {1}> ()
            z = If (k) <
                then_branch = t () => (float[2] a) { a = Sin (x) },
                else_branch = f () => (float[2] b) { b = Cos (x) }
            >
            y = Neg (z)
        }";
        let mut graph = parse(text, &mut origins).unwrap();
        let sin = graph.all_nodes().into_iter().find(|id| graph.node(*id).is("Sin")).unwrap();
        let before = graph.node(sin).origin;
        let mut edit = Editor::new(&mut graph, &mut origins, &Options::default());
        (PASS.run)(&mut edit).unwrap();
        edit.finish();
        assert_eq!(graph.node(sin).origin, before);
        assert_eq!(graph.node(sin).block(), onnx::Graph::MAIN);
    }
}
