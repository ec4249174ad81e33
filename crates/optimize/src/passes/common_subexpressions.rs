//! Common subexpression elimination: merges nodes with the same operator, attributes and operands.
//! A node of a subgraph may reuse one of an enclosing block, but not vice versa.

use std::hash::{Hash, Hasher};

use onnx::operators::Trait;
use onnx::{Attr, Attrs, BlockId, Graph, Node, NodeId};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use tensor::Tensor;

use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "common_subexpressions", run };

/// The visible nodes, by the hash of their computation.
type Seen = FxHashMap<u64, SmallVec<[NodeId; 1]>>;

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    let mut bodies = vec![Graph::MAIN];
    bodies.extend(edit.graph().functions.iter().map(|f| f.body));
    for body in bodies {
        changed |= walk(edit, body, &mut Seen::default())?;
    }
    Ok(changed)
}

fn walk(edit: &mut Editor<'_>, block: BlockId, seen: &mut Seen) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    let mut added = Vec::new();
    for id in edit.graph().nodes_of(block).collect::<Vec<_>>() {
        let Some(node) = edit.graph().get(id) else { continue };
        let inner: Vec<_> = node.blocks().collect();
        if inner.is_empty() && is_repeatable(node) {
            let key = hash(node);
            let alike = seen.entry(key).or_default();
            match alike.iter().find(|other| is_same(edit.graph(), id, **other)).copied() {
                None => {
                    alike.push(id);
                    added.push(key);
                }
                Some(first) => {
                    if !edit.spend(PASS.name) {
                        return Ok(changed);
                    }
                    let with = edit.graph().node(first).outputs.clone();
                    edit.unite(PASS.name, id, &with)?;
                    changed = Changed::Yes;
                }
            }
        }
        for block in inner {
            changed |= walk(edit, block, seen)?;
        }
    }
    for key in added {
        if let Some(nodes) = seen.get_mut(&key) {
            nodes.pop();
        }
    }
    Ok(changed)
}

/// Returns `true` if a node has the same result at any position and in every execution. `Identity`
/// is excluded, because it exists to create a second value.
pub(super) fn is_repeatable(node: &Node) -> bool {
    node.op.domain.is_empty() && !node.is("Identity") && !node.operator().has(Trait::Random)
}

fn hash(node: &Node) -> u64 {
    let mut hasher = FxHasher::default();
    (node.op, &node.inputs, node.outputs.len()).hash(&mut hasher);
    for (name, attr) in &node.attrs {
        name.hash(&mut hasher);
        match attr {
            Attr::Int(v) => v.hash(&mut hasher),
            Attr::Ints(v) => v.hash(&mut hasher),
            Attr::String(v) => v.hash(&mut hasher),
            Attr::Float(v) => v.to_bits().hash(&mut hasher),
            Attr::Tensor(v) => {
                let bytes = v.bytes().unwrap_or_default();
                (v.dtype(), v.shape(), &bytes[..bytes.len().min(64)]).hash(&mut hasher);
            }
            Attr::Floats(_) | Attr::Strings(_) | Attr::Graph(_) => {}
        }
    }
    hasher.finish()
}

fn is_same(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let (Some(one), Some(other)) = (graph.get(a), graph.get(b)) else { return false };
    one.inputs == other.inputs && computes_alike(graph, a, b)
}

/// Returns `true` if two nodes compute the same function of their operands.
pub(super) fn computes_alike(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let (Some(a), Some(b)) = (graph.get(a), graph.get(b)) else { return false };
    a.op == b.op
        && are_same(&a.attrs, &b.attrs)
        && a.outputs.len() == b.outputs.len()
        && a.outputs.iter().zip(&b.outputs).all(|(a, b)| graph.ty(*a) == graph.ty(*b))
}

/// Returns `true` if attributes are equal bit for bit: `0.0` is not `-0.0`.
fn are_same(a: &Attrs, b: &Attrs) -> bool {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let same = |a: &Attr, b: &Attr| match (a, b) {
        (Attr::Float(a), Attr::Float(b)) => a.to_bits() == b.to_bits(),
        (Attr::Floats(a), Attr::Floats(b)) => bits(a) == bits(b),
        (Attr::Tensor(a), Attr::Tensor(b)) => Tensor::eq(a, b),
        (Attr::Graph(_), _) => false,
        (a, b) => a == b,
    };
    a.len() == b.len() && a.iter().zip(b).all(|((i, x), (j, y))| i == j && same(x, y))
}

#[cfg(test)]
mod tests {
    use onnx::{Op, attrs};
    use provenance::Origins;

    use super::PASS;
    use crate::testing::{graph, passes_to};
    use crate::{Changed, Editor, Options};

    #[test]
    fn equal_computations_are_merged() {
        passes_to(
            &PASS,
            "g (float[2,3] x) => (float[3,2] y) {
                a = Transpose <perm = [1, 0]> (x)
                b = Transpose <perm = [1, 0]> (x)
                c = Exp (a)
                d = Exp (b)
                y = Add (c, d)
            }",
            "g (float[2,3] x) => (float[3,2] y) {
                a = Transpose <perm = [1, 0]> (x)
                c = Exp (a)
                y = Add (c, c)
            }",
        );
    }

    #[test]
    fn attributes_are_compared_bit_for_bit() {
        let text = "g (float[2] x) => (float[2] a, float[2] b, float[2] c) {
            a = LeakyRelu <alpha = 0.0> (x)
            b = LeakyRelu <alpha = -0.0> (x)
            c = LeakyRelu (x)
        }";
        passes_to(&PASS, text, text);
    }

    #[test]
    fn lists_of_floats_are_compared_bit_for_bit() {
        let text = |alpha: &str| {
            format!(
                "g (float[3,2,4] x, float[1,5,4] w, float[1,5,5] r) => (float[1,2,5] a, float[1,2,5] b) {{
                    c, a = RNN <hidden_size = 5, activations = [\"LeakyRelu\"], activation_alpha = [0.0]> (x, w, r)
                    d, b = RNN <hidden_size = 5, activations = [\"LeakyRelu\"], activation_alpha = [{alpha}]> (x, w, r)
                }}"
            )
        };
        passes_to(&PASS, &text("-0.0"), &text("-0.0"));
    }

    #[test]
    fn random_numbers_are_drawn_twice() {
        let mut origins = Origins::default();
        let mut graph = graph("g (float[2] x) => (float[2] y) { y = Add (x, x) }", &mut origins);
        let mut edit = Editor::new(&mut graph, &mut origins, &Options::default());
        let add = edit.graph().all_nodes()[0];
        for i in 0..2 {
            let random = (Op::onnx("RandomNormal"), vec![], attrs! { shape: vec![2] });
            let types = vec![edit.graph().ty(edit.graph().node(add).outputs[0]).clone()];
            let node = edit.add_like(add, add, random, types);
            let value = edit.graph().node(node).outputs[0];
            edit.set_input(add, i, Some(value));
        }
        assert_eq!((PASS.run)(&mut edit).unwrap(), Changed::No);
    }

    #[test]
    fn outputs_stay_distinct() {
        passes_to(
            &PASS,
            "g (float[2] x) => (float[2] y, float[2] z) { y = Exp (x) z = Exp (x) }",
            "g (float[2] x) => (float[2] y, float[2] z) { y = Exp (x) z = Identity (y) }",
        );
    }

    #[test]
    fn branches_reuse_outer_values() {
        passes_to(
            &PASS,
            "g (bool c, float[2] x) => (float[2] y, float[2] z) {
                t = Exp (x)
                y = If (c) <
                    then_branch = then_branch () => (float[2] a) { s = Exp (x) a = Neg (s) },
                    else_branch = else_branch () => (float[2] b) { b = Neg (x) }
                >
                u = Neg (x)
                z = Add (t, u)
            }",
            "g (bool c, float[2] x) => (float[2] y, float[2] z) {
                t = Exp (x)
                y = If (c) <
                    then_branch = then_branch () => (float[2] a) { a = Neg (t) },
                    else_branch = else_branch () => (float[2] b) { b = Neg (x) }
                >
                u = Neg (x)
                z = Add (t, u)
            }",
        );
    }

    #[test]
    fn copies_and_calls_stay_separate() {
        for op in ["Identity", "local.a"] {
            let text = format!(
                "g (float[2] x) => (float[2] y, float[2] z) {{ y = {op} (x) z = {op} (x) }}
                <domain: \"local\"> a (float[2] p) => (float[2] q) {{ q = Neg (p) }}"
            );
            passes_to(&PASS, &text, &text);
        }
    }
}
