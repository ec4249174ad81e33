//! The verifier: the invariants of every graph, and the opsets that it is valid at.

mod control_flow;
mod opset;
mod signature;
mod structure;

pub use opset::{check_opset, check_types, is_valid_at, required_opset};

use rustc_hash::FxHashSet;

use crate::{Error, Graph, Node, NodeId, Result, ValueId, schema};

/// Checks everything that a graph must satisfy, in time linear in its size.
///
/// Every operand is defined before it is read, in the same block or an enclosing one, functions
/// capture nothing, use lists are correct, and every node has the operands, results, attributes and
/// subgraphs that its operator requires.
///
/// If an opset is given, operators and element types must be valid there. Otherwise, a node must be
/// valid at some opset, and element types must be consistent: before legalisation, an operator
/// represents its computation for any element type.
pub fn verify(graph: &Graph, opset: Option<i64>) -> Result<()> {
    if let Some(opset) = opset {
        supported(opset)?;
    }
    structure::check(graph, opset)
}

/// Checks that no two values have the same name, as [`crate::assign_names`] ensures. Before that,
/// names are only requests: a parameter may have the name of an input.
pub fn verify_names(graph: &Graph) -> Result<()> {
    let blocks = graph.live_blocks();
    let inputs = blocks.iter().flat_map(|block| graph.block(*block).inputs.iter());
    let nodes = blocks.iter().flat_map(|block| graph.nodes_of(*block));
    let results = nodes.flat_map(|node| graph.node(node).outputs.iter());
    let mut seen = FxHashSet::default();
    for value in inputs.chain(results).copied().chain(graph.live_tensors().map(|(id, _)| id)) {
        let name = graph.value(value).name.as_str();
        if !seen.insert(name) {
            return Err(Error::Graph(format!("two values are named `{name}`")));
        }
    }
    Ok(())
}

/// Checks one node by itself, as [`verify`] does without an opset.
pub fn check_node(graph: &Graph, node: NodeId) -> Result<()> {
    signature::check(graph, node, None)
}

/// Fails unless models can be written for `opset`.
fn supported(opset: i64) -> Result<()> {
    if (schema::OLDEST..=schema::NEWEST).contains(&opset) {
        return Ok(());
    }
    Err(Error::OpsetUnsupported { given: opset, oldest: schema::OLDEST, newest: schema::NEWEST })
}

/// Returns the label of a node for messages: its operator and its name, or else its number.
fn label(id: NodeId, node: &Node) -> String {
    if node.name.is_empty() {
        format!("{} #{}", node.op.name, id.index())
    } else {
        format!("{} `{}`", node.op.name, node.name)
    }
}

/// Returns the label of a value for messages: its name, or else its number and type.
fn value_label(graph: &Graph, id: ValueId) -> String {
    let value = graph.value(id);
    if value.name.is_empty() {
        format!("%{} ({})", id.index(), value.ty)
    } else {
        format!("`{}`", value.name)
    }
}

#[cfg(test)]
mod tests;
