//! The products that no other product follows, such as logits and other results.

use onnx::operators::PrecisionClass;
use onnx::{BlockId, Graph, Node, NodeId, Use};
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns the products whose results reach no other product as floats. An index that is computed
/// from them counts as a result, even if it is used for a lookup.
pub(super) fn find(graph: &Graph) -> FxHashSet<NodeId> {
    let nodes = graph.all_nodes();
    let owners: FxHashMap<BlockId, NodeId> =
        nodes.iter().flat_map(|id| graph.node(*id).blocks().map(|b| (b, *id))).collect();
    let products = with_products(graph, &nodes);
    let mut followed: FxHashSet<NodeId> = FxHashSet::default();
    // The results of a body are followed by the consumers of its owner, which a later iteration
    // finds.
    loop {
        let before = followed.len();
        for id in nodes.iter().rev() {
            let node = graph.node(*id);
            let outputs = node.outputs.iter().map(|value| graph.value(*value));
            let mut uses = outputs.filter(|v| v.ty.dtype.is_float()).flat_map(onnx::Value::uses);
            let counts = |reader: NodeId| products.contains(&reader) || followed.contains(&reader);
            let is_followed = uses.any(|place| match place {
                Use::Operand(reader, _) => counts(reader),
                Use::Output(block, _) => match owners.get(&block) {
                    Some(owner) => followed.contains(owner),
                    None => callers(graph, &nodes, block).any(|id| followed.contains(&id)),
                },
            });
            if is_followed {
                followed.insert(*id);
            }
        }
        if followed.len() == before {
            break;
        }
    }
    let is_product = |id: &NodeId| graph.node(*id).precision() == PrecisionClass::Product;
    nodes.into_iter().filter(|id| is_product(id) && !followed.contains(id)).collect()
}

/// Returns the calls of the function whose body is `block`.
fn callers<'a>(
    graph: &'a Graph,
    nodes: &'a [NodeId],
    block: BlockId,
) -> impl Iterator<Item = NodeId> + 'a {
    let function = graph.functions.iter().find(move |function| function.body == block);
    nodes.iter().copied().filter(move |id| function.is_some_and(|f| f.op == graph.node(*id).op))
}

/// Returns the products, and all nodes that contain products.
fn with_products(graph: &Graph, nodes: &[NodeId]) -> FxHashSet<NodeId> {
    let mut found: FxHashSet<NodeId> = FxHashSet::default();
    loop {
        let before = found.len();
        for id in nodes {
            let node = graph.node(*id);
            let holds = |block| graph.nodes_of(block).any(|inner| found.contains(&inner));
            let called = graph.functions.iter().find(|f| f.op == node.op && is_call(node));
            if node.precision() == PrecisionClass::Product
                || node.blocks().any(holds)
                || called.is_some_and(|f| holds(f.body))
            {
                found.insert(*id);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn is_call(node: &Node) -> bool {
    !node.op.domain.is_empty()
}
