//! Spellings that mean the same to runtimes, and that more tools can read.

use onnx::{Attr, Graph, NodeId};
use tensor::{DType, Tensor};

/// `Loop` without a limit gets the largest one: onnxruntime's symbolic shape inference, and what is built on
/// it, look for the type of the operand.
fn limit_of_loop(graph: &mut Graph, id: NodeId) {
    let node = graph.node(id);
    if node.is("Loop") && node.input(0).is_none() && !node.inputs.is_empty() {
        let limit = Tensor::int_scalar(DType::I64, i64::MAX.into());
        let limit = limit.map(|limit| graph.intern_constant(limit));
        graph.set_input(id, 0, limit);
    }
}

/// `Scan` without results of each round has no directions for them: older checkers refuse empty lists.
fn lists_of_scan(graph: &mut Graph, id: NodeId) {
    if graph.node(id).is("Scan") {
        let is_empty = |attr: &Attr| matches!(attr, Attr::Ints(list) if list.is_empty());
        graph.node_mut(id).attrs.retain(|(_, attr)| !is_empty(attr));
    }
}

/// Puts them in.
pub(super) fn spell(graph: &mut Graph) {
    for id in graph.all_nodes() {
        limit_of_loop(graph, id);
        lists_of_scan(graph, id);
    }
}
