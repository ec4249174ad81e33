//! Constants that the bodies of control flow declare themselves, because tools that rename or merge
//! graphs lose track of constants that a body captures.

use onnx::{BlockId, Graph, NodeId, Use, ValueId};
use rustc_hash::FxHashMap;

use crate::LARGE;

/// Gives each body in the main graph its own copies of small constants that it shares with other
/// blocks. Parameters and large constants remain in the main graph, where people and tools expect
/// them.
pub fn separate_constants(graph: &mut Graph) {
    for block in bodies(graph) {
        let mut own: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let nodes: Vec<NodeId> = graph.nodes_of(block).collect();
        for node in nodes {
            for index in 0..graph.node(node).inputs.len() {
                let Some(value) = graph.node(node).input(index) else { continue };
                let own = *own.entry(value).or_insert_with(|| own_constant(graph, value, block));
                if own != value {
                    graph.set_constant(node, index, own);
                }
            }
        }
    }
}

/// Returns the bodies in the main graph, outer before inner.
fn bodies(graph: &Graph) -> Vec<BlockId> {
    let inside = |block| graph.nodes_of(block).flat_map(|id| graph.node(id).blocks());
    let mut found: Vec<BlockId> = inside(Graph::MAIN).collect();
    let mut at = 0;
    while let Some(block) = found.get(at) {
        found.extend(inside(*block).collect::<Vec<_>>());
        at += 1;
    }
    found
}

/// Returns the copy of the constant `value` for `block`, or `value` itself if it needs no copy.
fn own_constant(graph: &mut Graph, value: ValueId, block: BlockId) -> ValueId {
    if !may_be_declared(graph, value) || is_only_read_in(graph, value, block) {
        return value;
    }
    match graph.constant(value).cloned() {
        Some(tensor) => graph.add_constant(tensor),
        None => value,
    }
}

/// Returns `true` if the body `block` of the main graph declares the constant `value`.
pub(crate) fn is_declared_in(graph: &Graph, value: ValueId, block: BlockId) -> bool {
    may_be_declared(graph, value) && is_only_read_in(graph, value, block)
}

fn may_be_declared(graph: &Graph, value: ValueId) -> bool {
    graph.constant(value).is_some_and(|tensor| tensor.byte_len() < LARGE)
}

fn is_only_read_in(graph: &Graph, value: ValueId, block: BlockId) -> bool {
    graph.value(value).uses().all(|place| match place {
        Use::Operand(node, _) => graph.node(node).block() == block,
        Use::Output(..) => false,
    })
}

#[cfg(test)]
mod tests {
    use onnx::{assign_names, text};
    use provenance::Origins;

    use crate::proto::{AttributeProto, GraphProto};
    use crate::{EncodeOptions, encode, separate_constants};

    fn body(graph: &GraphProto) -> &GraphProto {
        let mut attributes = graph.node.iter().flat_map(|node| &node.attribute);
        let body = |attribute: &&AttributeProto| attribute.g.is_some();
        attributes.find(body).and_then(|attribute| attribute.g.as_deref()).unwrap()
    }

    fn declared(graph: &GraphProto) -> Vec<&str> {
        graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect()
    }

    #[test]
    fn each_body_declares_its_small_constants() {
        let mut origins = Origins::default();
        let mut graph = text::parse(
            "g (float[2] x, bool c) => (float[2] y) <float[2] weight = {3, 4}> {
                one = Constant <value = float {1}> ()
                z = Add (x, one)
                y = If (c) <
                    then_branch = then () => (float[2] t) {
                        u = Add (z, one)
                        v = If (c) <
                            then_branch = inner () => (float[2] p) { p = Add (u, one) },
                            else_branch = outer () => (float[2] q) { q = Mul (u, weight) }
                        >
                        t = Mul (v, one)
                    },
                    else_branch = else () => (float[2] e) { e = Mul (z, weight) }
                >
            }",
            &mut origins,
        )
        .unwrap();
        separate_constants(&mut graph);
        assign_names(&mut graph, &origins);
        let model = encode(&graph, &EncodeOptions::new(23)).unwrap();
        let main = model.proto.graph.as_ref().unwrap();
        assert_eq!(declared(main), ["weight", "const/f32/1.0"]);
        let then = body(main);
        assert_eq!(declared(then), ["const/f32/1.0_copy1"]);
        assert_eq!(declared(body(then)), ["const/f32/1.0_copy2"]);
        assert_eq!(body(then).node[0].input[1], "const/f32/1.0_copy2");
    }
}
