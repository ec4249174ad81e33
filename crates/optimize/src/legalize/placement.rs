//! Nodes that a target's device leaves to the CPU.

use onnx::schema::Binding;
use onnx::{Graph, Node};
use provenance::OriginId;
use tensor::DType;

use crate::Target;
use crate::targets::Kernels;

/// A node that the device does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Its operator.
    pub op: &'static str,
    /// The element type of its first operand, or of its result.
    pub dtype: DType,
    /// Its origin.
    pub origin: OriginId,
    /// The newest older opset at which the device runs it.
    pub until: Option<i64>,
}

/// The control-flow operators, whose inner nodes are placed individually.
const HOLDERS: [&str; 3] = ["If", "Loop", "Scan"];

/// Returns the nodes of a finished graph that the device of `target` does not run. Sizes and positions
/// do not count, because they are computed on the CPU anyway.
pub fn fallbacks(graph: &Graph, opset: i64, target: Target) -> Vec<Fallback> {
    let Some(kernels) = target.on_device else { return Vec::new() };
    let nodes = graph.all_nodes().into_iter().map(|id| graph.node(id));
    let left = nodes.filter(|node| {
        !HOLDERS.contains(&node.op.name)
            && node.op.domain.is_empty()
            && !is_on_device(graph, node, opset, kernels)
            && !is_size(graph, node)
    });
    left.map(|node| {
        let first = node.input(0).or(node.outputs.first().copied());
        let dtype = first.map_or(DType::F32, |value| graph.ty(value).dtype);
        let older = (target.lowest_opset..opset).rev();
        let until = older.into_iter().find(|opset| {
            onnx::is_valid_at(node, *opset) && is_on_device(graph, node, *opset, kernels)
        });
        Fallback { op: node.op.name, dtype, origin: node.origin, until }
    })
    .collect()
}

/// Returns `true` if a node computes sizes or positions.
pub(super) fn is_size(graph: &Graph, node: &Node) -> bool {
    node.outputs.iter().all(|value| graph.content(*value).is_some())
}

fn is_on_device(graph: &Graph, node: &Node, opset: i64, kernels: Kernels) -> bool {
    let Some(schema) = node.schema(opset) else { return false };
    let Ok(binding) = Binding::new(schema, graph, node) else { return false };
    kernels.run(schema, node, &binding)
}
