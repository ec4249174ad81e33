//! The consumers of a weight: products, lookups, or other operators.

use onnx::{Attr, BlockId, Graph, Node, NodeId, Use, ValueId};
use tensor::DType;

/// A consumer of a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reader {
    /// A matrix product with the weight as its right operand.
    Product,
    /// A lookup of some of its rows.
    Lookup(NodeId),
    /// Another operator.
    Other(&'static str),
}

/// Returns all consumers of `value`, directly or inside a function. For stacked matrices, these are
/// the consumers of a single matrix: an iteration of a scan, or a lookup of a matrix by its index.
pub(super) fn readers(graph: &Graph, value: ValueId) -> Vec<Reader> {
    let mut found = Vec::new();
    collect(graph, value, &mut found);
    found
}

fn collect(graph: &Graph, value: ValueId, found: &mut Vec<Reader>) {
    for use_ in graph.value(value).uses() {
        let Use::Operand(id, index) = use_ else {
            found.push(Reader::Other("an output of the model"));
            continue;
        };
        let node = graph.node(id);
        let called = graph.functions.iter().find(|function| function.op == node.op);
        if let Some(input) = called.and_then(|f| graph.block(f.body).inputs.get(index)) {
            collect(graph, *input, found);
            continue;
        }
        if let Some(one) = one_of_stack(graph, node, index) {
            collect(graph, one, found);
            continue;
        }
        found.push(match node.op.name {
            _ if is_product(graph, node, index) => Reader::Product,
            "Gather" if index == 0 && node.int("axis", 0) == 0 => Reader::Lookup(id),
            name => Reader::Other(name),
        });
    }
}

/// Returns the value that holds one matrix of the stack that `node` reads at `index`.
fn one_of_stack(graph: &Graph, node: &Node, index: usize) -> Option<ValueId> {
    if graph.ty(node.input(index)?).rank() != 3 {
        return None;
    }
    if node.is("Scan") {
        let count = usize::try_from(node.int("num_scan_inputs", 0)).ok()?;
        let number = index.checked_sub(node.inputs.len().checked_sub(count)?)?;
        let axis = node.ints("scan_input_axes").map_or(Some(&0), |axes| axes.get(number));
        let body: BlockId = node.blocks().next().filter(|_| axis == Some(&0))?;
        return graph.block(body).inputs.get(index).copied();
    }
    let is_one = || node.input(1).is_some_and(|number| graph.ty(number).rank() == 0);
    let is_lookup = node.is("Gather") && index == 0 && node.int("axis", 0) == 0;
    (is_lookup && is_one()).then(|| node.outputs[0])
}

fn is_product(graph: &Graph, node: &Node, index: usize) -> bool {
    let is_matrix = node.input(1).is_some_and(|value| graph.ty(value).rank() == 2);
    index == 1 && is_matrix && (node.is("MatMul") || node.is("Gemm") && node.int("transB", 0) == 0)
}

/// Returns the casts to `dtype` that read `value`, or `None` if it has other consumers.
pub(super) fn casts(graph: &Graph, value: ValueId, dtype: DType) -> Option<Vec<NodeId>> {
    let mut casts = Vec::new();
    for use_ in graph.value(value).uses() {
        let Use::Operand(id, _) = use_ else { return None };
        let node = graph.node(id);
        let to = Attr::Int(i64::from(dtype.onnx_code()));
        if !node.is("Cast") || node.attr("to") != Some(&to) {
            return None;
        }
        casts.push(id);
    }
    Some(casts)
}
