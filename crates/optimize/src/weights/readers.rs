//! The consumers of a weight: products, lookups, or other operators.

use onnx::{Attr, BlockId, Graph, Node, NodeId, Use, ValueId};
use tensor::DType;

/// A consumer of a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reader {
    /// A matrix product with the weight as its right operand, possibly in another layout, or with
    /// one matrix of a stack.
    Product,
    /// Products that read the transposed matrix, which is this value.
    Transposed(ValueId),
    /// A lookup of some of its rows, or of some matrices of a stack.
    Lookup(NodeId),
    /// A lookup of one matrix of a stack.
    Matrix(NodeId),
    /// Another operator.
    Other(&'static str),
}

/// Returns all consumers of `value`, directly or inside a function. For stacked matrices that a
/// scan reads, these are the consumers of a single matrix.
pub(super) fn readers(graph: &Graph, value: ValueId) -> Vec<Reader> {
    let mut found = Vec::new();
    for use_ in graph.value(value).uses() {
        let Use::Operand(id, index) = use_ else {
            found.push(Reader::Other("an output of the model"));
            continue;
        };
        let node = graph.node(id);
        if let Some(transposed) = transposed(graph, node) {
            found.push(Reader::Transposed(transposed));
        } else if is_lookup(graph, node, index) {
            found.push(Reader::Lookup(id));
        } else if node.is("Gather") && one_of_stack(graph, node, index).is_some() {
            found.push(Reader::Matrix(id));
        } else {
            follow(graph, id, index, &mut found);
        }
    }
    found
}

/// Returns the operator that reads `value`, possibly in another layout, and is not a product.
pub(super) fn other_than_product(graph: &Graph, value: ValueId) -> Option<&'static str> {
    let mut found = Vec::new();
    follow_uses(graph, value, &mut found);
    found.into_iter().find_map(|reader| match reader {
        Reader::Other(op) => Some(op),
        _ => None,
    })
}

fn follow_uses(graph: &Graph, value: ValueId, found: &mut Vec<Reader>) {
    for use_ in graph.value(value).uses() {
        match use_ {
            Use::Operand(id, index) => follow(graph, id, index, found),
            _ => found.push(Reader::Other("an output of the model")),
        }
    }
}

/// Collects the consumer `id`, or those of its result if it only selects or moves elements.
fn follow(graph: &Graph, id: NodeId, index: usize, found: &mut Vec<Reader>) {
    let node = graph.node(id);
    let called = graph.functions.iter().find(|function| function.op == node.op);
    if let Some(input) = called.and_then(|f| graph.block(f.body).inputs.get(index)) {
        return follow_uses(graph, *input, found);
    }
    if let Some(one) = one_of_stack(graph, node, index) {
        return follow_uses(graph, one, found);
    }
    match node.op.name {
        _ if is_product(node, index) => found.push(Reader::Product),
        "Reshape" | "Transpose" | "Squeeze" | "Unsqueeze" if index == 0 => {
            follow_uses(graph, node.outputs[0], found);
        }
        // `jnp.take` selects between elements and NaN.
        "Where" if index != 0 => follow_uses(graph, node.outputs[0], found),
        // Experts of a mixture. Rows of a table stay lookups.
        "Gather" if is_lookup(graph, node, index) && is_stack(graph, node) => {
            follow_uses(graph, node.outputs[0], found);
        }
        name => found.push(Reader::Other(name)),
    }
}

/// Returns the value that holds one matrix of the stack that `node` reads at `index`.
fn one_of_stack(graph: &Graph, node: &Node, index: usize) -> Option<ValueId> {
    if graph.ty(node.input(index)?).rank() < 3 {
        return None;
    }
    if node.is("Scan") {
        let count = usize::try_from(node.int("num_scan_inputs", 0)).ok()?;
        let number = index.checked_sub(node.inputs.len().checked_sub(count)?)?;
        let axis = node.ints("scan_input_axes").map_or(Some(&0), |axes| axes.get(number));
        let body: BlockId = node.blocks().next().filter(|_| axis == Some(&0))?;
        return graph.block(body).inputs.get(index).copied();
    }
    let is_gather = node.is("Gather") && index == 0 && node.int("axis", 0) == 0;
    let is_one = || node.input(1).is_some_and(|number| graph.ty(number).rank() == 0);
    (is_gather && is_one()).then(|| node.outputs[0])
}

/// Returns `true` if a node looks up rows, or matrices of a stack, by several indices.
fn is_lookup(graph: &Graph, node: &Node, index: usize) -> bool {
    let is_gather = node.is("Gather") && index == 0 && node.int("axis", 0) == 0;
    is_gather && one_of_stack(graph, node, index).is_none()
}

/// Returns `true` if all consumers multiply stacks of matrices by the weight, which may then be a matrix or a
/// stack of one.
pub(crate) fn multiplies_stacks(graph: &Graph, value: ValueId) -> bool {
    graph.value(value).uses().all(|use_| {
        let Use::Operand(id, 1) = use_ else { return false };
        let node = graph.node(id);
        node.is("MatMul") && is_stack(graph, node)
    })
}

fn is_stack(graph: &Graph, node: &Node) -> bool {
    node.input(0).is_some_and(|value| graph.ty(value).rank() > 2)
}

fn is_product(node: &Node, index: usize) -> bool {
    index == 1 && (node.is("MatMul") || node.is("Gemm") && node.int("transB", 0) == 0)
}

/// Returns the transposed matrix if a node transposes it for products, after or before a cast.
fn transposed(graph: &Graph, node: &Node) -> Option<ValueId> {
    let is_transpose = |node: &Node| node.is("Transpose") && node.ints("perm") == Some(&[1, 0]);
    let only_products = |value: ValueId| {
        let mut uses = graph.value(value).uses().peekable();
        let is_used = uses.peek().is_some();
        let is_product =
            |use_| matches!(use_, Use::Operand(id, index) if is_product(graph.node(id), index));
        is_used && uses.all(is_product)
    };
    let one = node.outputs.first().copied()?;
    let next = |value| graph.value(value).only_consumer().map(|(id, _)| graph.node(id));
    let result = match node.op.name {
        "Transpose" if is_transpose(node) => match next(one).filter(|node| node.is("Cast")) {
            Some(cast) => cast.outputs[0],
            None => one,
        },
        "Cast" => next(one).filter(|node| is_transpose(node))?.outputs[0],
        _ => return None,
    };
    let is_float = matches!(graph.ty(result).dtype, DType::F16 | DType::F32);
    (is_float && only_products(result)).then_some(result)
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
