//! Candidate nodes for messages that name no node, selected by operator and shapes.

use std::collections::BTreeSet;

use onnx::operators;

use super::refine::dims;
use crate::log::Meaning;
use crate::model::{Index, Node};

/// Returns the nodes that may have caused a message with this meaning.
pub(super) fn candidates(index: &Index<'_>, meaning: &Meaning) -> Vec<usize> {
    let is_meant = |node: &Node<'_>| match meaning.code {
        "broadcast-mismatch" => may_not_broadcast(index, node),
        "reshape-mismatch" => meaning.blank("to").is_some_and(|to| may_reshape(index, node, to)),
        _ => false,
    };
    let nodes = index.nodes.iter().enumerate().filter(|(_, node)| is_meant(node));
    nodes.map(|(position, _)| position).collect()
}

/// Returns `true` if the operand shapes of a broadcasting node may be incompatible.
fn may_not_broadcast(index: &Index<'_>, node: &Node<'_>) -> bool {
    if !operators::find(&node.proto.op_type).broadcasts() {
        return false;
    }
    // A value is always compatible with itself.
    let inputs: BTreeSet<&String> = node.proto.input.iter().filter(|n| !n.is_empty()).collect();
    let shapes = inputs.into_iter().map(|name| dims(&index.type_of(node.body, name)));
    let shapes: Vec<Option<Vec<String>>> = shapes.collect();
    let Some(known) = shapes.iter().cloned().collect::<Option<Vec<Vec<String>>>>() else {
        return shapes.len() > 1;
    };
    let rank = known.iter().map(Vec::len).max().unwrap_or_default();
    (1..=rank).any(|axis| {
        let sizes = known.iter().filter_map(|shape| shape.get(shape.len().checked_sub(axis)?));
        let sizes: Vec<&String> = sizes.filter(|size| *size != "1").collect();
        let is_open = |size: &&String| size.parse::<u64>().is_err();
        sizes.len() > 1 && (sizes.iter().any(is_open) || sizes.iter().any(|size| *size != sizes[0]))
    })
}

/// Returns `true` if a node may reshape its operand to the sizes `to`.
fn may_reshape(index: &Index<'_>, node: &Node<'_>, to: &str) -> bool {
    if node.proto.op_type != "Reshape" {
        return false;
    }
    let Some(result) = node.proto.output.first() else { return false };
    let Some(sizes) = dims(&index.type_of(node.body, result)) else { return true };
    let wanted: Vec<&str> = to.split(',').map(str::trim).filter(|size| !size.is_empty()).collect();
    let fits = |(own, wanted): (&String, &&str)| {
        own.parse::<u64>().is_err() || own == wanted || *wanted == "-1" || *wanted == "0"
    };
    sizes.len() == wanted.len() && sizes.iter().zip(&wanted).all(fits)
}
