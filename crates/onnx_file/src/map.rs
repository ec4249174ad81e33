//! The nodes of a model as entries of its source map.

use std::borrow::Cow;

use onnx::{BlockId, Graph, NodeId, Op, ValueId};
use provenance::MapNode;
use rustc_hash::FxHashMap;

use crate::function_constants::function_constants;

/// Returns the names of the inputs of all blocks, which no node computes.
pub fn map_inputs(graph: &Graph) -> Vec<&str> {
    let blocks = graph.live_blocks().into_iter();
    blocks
        .flat_map(|block| &graph.block(block).inputs)
        .map(|value| graph.value(*value).name.as_str())
        .collect()
}

/// Returns all nodes of all blocks by name, with the producers of their operands.
///
/// A consumer of a function's result refers to the node inside the function that computes it,
/// because runtimes inline the call. If a call has several results, the entries do not record which
/// one is read. Nodes for the constants of functions come last.
pub fn map_nodes(graph: &Graph) -> Vec<MapNode<'_>> {
    let nodes = graph.all_nodes();
    let functions: FxHashMap<Op, BlockId> =
        graph.functions.iter().map(|function| (function.op, function.body)).collect();
    let positions: FxHashMap<NodeId, usize> =
        nodes.iter().enumerate().map(|(position, id)| (*id, position)).collect();
    let entry = |id: &NodeId| {
        let node = graph.node(*id);
        let read: Vec<ValueId> = match functions.get(&node.op) {
            Some(body) if node.outputs.len() == 1 => graph.block(*body).outputs().to_vec(),
            Some(_) => Vec::new(),
            None => node.inputs.iter().flatten().copied().collect(),
        };
        let producers = read.into_iter().filter_map(|value| graph.producer(value));
        MapNode {
            name: Cow::Borrowed(&node.name),
            origin: node.origin,
            inputs: producers.filter_map(|id| positions.get(&id).copied()).collect(),
            outputs: node.outputs.iter().map(|value| graph.value(*value).name.as_str()).collect(),
        }
    };
    // A constant has the same name wherever it is used, so only its node has a unique name.
    let constants = function_constants(graph).into_iter().flatten().map(|constant| MapNode {
        name: Cow::Owned(constant.name),
        origin: graph.node(constant.reader).origin,
        inputs: Vec::new(),
        outputs: vec![""],
    });
    nodes.iter().map(entry).chain(constants).collect()
}
