//! Nodes that a target with a GPU leaves to the CPU.

use onnx::schema::{self, Binding};
use onnx::{Graph, Node};
use provenance::OriginId;
use tensor::DType;

use super::Target;

/// A node that the GPU does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Its operator.
    pub op: &'static str,
    /// The element type of its first operand, or of its result.
    pub dtype: DType,
    /// Its origin.
    pub origin: OriginId,
}

/// The control-flow operators, whose inner nodes are placed individually.
const HOLDERS: [&str; 3] = ["If", "Loop", "Scan"];

/// Returns the nodes of a finished graph that the GPU of `target` does not run. Sizes and positions
/// do not count, because they are computed on the CPU anyway.
pub fn fallbacks(graph: &Graph, opset: i64, target: Target) -> Vec<Fallback> {
    if target != Target::WebGpu {
        return Vec::new();
    }
    let nodes = graph.all_nodes().into_iter().map(|id| graph.node(id));
    let left = nodes.filter(|node| {
        let is_size = || node.outputs.iter().all(|value| graph.content(*value).is_some());
        !HOLDERS.contains(&node.op.name)
            && node.op.domain.is_empty()
            && !is_on_gpu(graph, node, opset)
            && !is_size()
    });
    left.map(|node| {
        let first = node.input(0).or(node.outputs.first().copied());
        let dtype = first.map_or(DType::F32, |value| graph.ty(value).dtype);
        Fallback { op: node.op.name, dtype, origin: node.origin }
    })
    .collect()
}

fn is_on_gpu(graph: &Graph, node: &Node, opset: i64) -> bool {
    let Some(schema) = schema::find(&node.op, opset) else { return false };
    let Ok(binding) = Binding::new(schema, graph, node) else { return false };
    schema.rows_on_gpu(&node.attrs).any(|row| binding.fits(row.types()))
}
