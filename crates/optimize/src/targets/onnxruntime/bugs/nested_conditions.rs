//! Computes a condition on constants inside a branch of another one by a `Loop`, which is not
//! folded.
//!
//! onnxruntime's constant folding inlines the branches of such conditions. If they are nested, it
//! may read a branch that no longer exists, and crash. A single condition is not affected.

use onnx::{Attrs, Builder, Graph, NodeId, ValueId, attrs};
use rustc_hash::FxHashSet;
use tensor::{DType, Type};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(super) static BUG: Bug = Bug { name: "nested_conditions", roots: Roots::Named(&["If"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let outer = work.graph().node(id);
    if !outer.input(0).is_some_and(|condition| is_folded(work.graph(), condition)) {
        return Ok(());
    }
    let branches: Vec<_> = outer.blocks().collect();
    let inner: Vec<NodeId> =
        branches.iter().flat_map(|block| work.graph().nodes_of(*block)).collect();
    for inner in inner {
        let node = work.graph().node(inner);
        let condition = node.input(0).filter(|_| node.is("If"));
        let Some(condition) = condition.filter(|value| is_folded(work.graph(), *value)) else {
            continue;
        };
        let hidden = computed_by_a_loop(&mut work.builder(inner), condition)?;
        work.set_input(inner, 0, hidden);
    }
    Ok(())
}

/// Emits a `Loop` of one iteration that carries a Boolean.
fn computed_by_a_loop(b: &mut Builder<'_>, value: ValueId) -> onnx::Result<ValueId> {
    let (once, always) = (b.scalar(DType::I64, 1.0)?, b.scalar(DType::Bool, 1.0)?);
    let types = [DType::I64, DType::Bool, DType::Bool].map(|dtype| Type::new(dtype, Vec::new()));
    let body = b.body(|b, block| {
        let inputs = types.map(|ty| b.graph_mut().add_input(block, ty));
        inputs[1..].iter().map(|input| b.op("Identity", &[*input], Attrs::new())).collect()
    })?;
    b.op("Loop", &[once, always, value], attrs! { body: body })
}

/// Returns `true` if a value depends only on constants and on sizes of inputs, which may be fixed
/// in a runtime.
fn is_folded(graph: &Graph, value: ValueId) -> bool {
    let (mut open, mut seen) = (vec![value], FxHashSet::default());
    while let Some(value) = open.pop() {
        if graph.tensor(value).is_some() || !seen.insert(value) {
            continue;
        }
        let Some(node) = graph.producer(value).map(|id| graph.node(id)) else { return false };
        if node.blocks().next().is_some() {
            return false;
        }
        if !(node.is("Shape") || node.is("Size")) {
            open.extend(node.inputs.iter().flatten());
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    /// Returns two conditions, one inside the other.
    fn nested(outer: &str, inner: &str) -> String {
        format!(
            "g (float[2] x, bool p, bool q) => (float[2] y) <bool c = {{1}}, bool d = {{0}}> {{
                n = Not (c)
                m = Not (d)
                y = If ({outer}) <
                    then_branch = then_branch () => (float[2] a) {{ a = Exp (x) }},
                    else_branch = else_branch () => (float[2] e) {{
                        e = If ({inner}) <
                            then_branch = inner_then () => (float[2] b) {{ b = Neg (x) }},
                            else_branch = inner_else () => (float[2] f) {{ f = Abs (x) }}
                        >
                    }}
                >
            }}"
        )
    }

    fn is_hidden(outer: &str, inner: &str) -> bool {
        testing::legalized_text(&nested(outer, inner), Target::default()).contains("Loop")
    }

    #[test]
    fn only_the_inner_one_of_two_conditions_on_constants_is_hidden() {
        assert!(is_hidden("n", "m"));
        assert!(!is_hidden("p", "m"));
        assert!(!is_hidden("n", "p"));
        assert!(!is_hidden("p", "q"));
    }
}
