//! Spellings that mean the same to runtimes, and that more tools can read.

mod attention;

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

/// A reduction of all axes does not list them: onnxruntime's symbolic shape inference knows the axes of few
/// operators.
fn axes_of_reduction(graph: &mut Graph, id: NodeId) {
    let node = graph.node(id);
    let (Some(x), Some(axes)) = (node.input(0), node.input(1)) else { return };
    if !node.op.domain.is_empty() || !node.op.name.starts_with("Reduce") {
        return;
    }
    let rank = graph.ty(x).shape.len();
    let axes = graph.constant(axes).and_then(Tensor::to_i64s);
    let is_all = axes.is_some_and(|axes| rank > 0 && axes.len() == rank);
    if is_all && node.int("noop_with_empty_axes", 0) == 0 {
        graph.set_input(id, 1, None);
        graph.node_mut(id).inputs.pop();
    }
}

/// Puts them in.
pub(super) fn spell(graph: &mut Graph) {
    for id in graph.all_nodes() {
        attention::spell(graph, id);
    }
    for id in graph.all_nodes() {
        axes_of_reduction(graph, id);
        limit_of_loop(graph, id);
        lists_of_scan(graph, id);
    }
}

#[cfg(test)]
mod tests {
    use onnx::text::print;
    use provenance::Origins;

    use super::spell;
    use crate::testing::graph;

    #[track_caller]
    pub(super) fn is_spelled(text: &str, expected: &str) {
        let mut found = graph(text, &mut Origins::default());
        spell(&mut found);
        onnx::verify(&found, None).unwrap();
        assert_eq!(print(&found), print(&graph(expected, &mut Origins::default())));
    }

    #[test]
    fn a_reduction_of_all_axes_does_not_list_them() {
        is_spelled(
            "g (float[2, 3] x) => (float y) {
                a = Constant <value_ints = [0, 1]> () y = ReduceMax <keepdims = 0> (x, a) }",
            "g (float[2, 3] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }",
        );
        let one = "g (float[2, 3] x) => (float[2] y) {
            a = Constant <value_ints = [1]> () y = ReduceMax <keepdims = 0> (x, a) }";
        is_spelled(one, one);
        let none = "g (float[2, 3] x) => (float[1, 1] y) {
            a = Constant <value_ints = [0, 1]> ()
            y = ReduceMax <noop_with_empty_axes = 1> (x, a) }";
        is_spelled(none, none);
    }
}
