//! Limits on the work and the memory that a file can cause. No real model reaches them.
//!
//! Readers of formats have further limits: `onnx_file::skim` for models, `provenance` for source
//! maps.

use std::path::Path;

use onnx_file::proto::{GraphProto, ModelProto, NodeProto};

use crate::failure::Failure;

/// The maximum number of call chains listed for one node of a function.
pub(crate) const CHAINS: usize = 256;

/// The maximum depth of followed function calls.
pub(crate) const CALL_DEPTH: usize = 32;

/// The maximum number of inlined calls. A chain of functions that each call the next one twice soon
/// exceeds any limit.
pub(crate) const INLINED_CALLS: usize = 1 << 14;

/// The maximum number of inlined nodes.
pub(crate) const INLINED_NODES: usize = 1 << 20;

/// The maximum number of nodes that a page shows inside calls. Further calls stay closed.
pub(crate) const UNFOLDED_NODES: usize = 50_000;

/// The maximum number of nodes of a model on a page.
pub(crate) const PAGE_NODES: usize = 250_000;

/// The maximum number of operands and results of all nodes on a page.
pub(crate) const PAGE_VALUES: usize = 1_500_000;

/// The maximum number of nodes of a compared model.
pub(crate) const COMPARED_NODES: usize = 500_000;

/// The maximum number of operands and results of all nodes of a compared model.
pub(crate) const COMPARED_VALUES: usize = 3_000_000;

/// The maximum number of bytes of JSON that one command prints.
pub(crate) const JSON_BYTES: u64 = 1 << 30;

/// The size of a model.
#[derive(Default)]
struct Size {
    nodes: usize,
    /// Operands and results of nodes, and the inputs, outputs and parameters of graphs.
    values: usize,
}

impl Size {
    fn of(model: &ModelProto) -> Self {
        let mut size = Self::default();
        model.graph.iter().for_each(|graph| size.add_graph(graph));
        model.functions.iter().for_each(|function| size.add_nodes(&function.node));
        size
    }

    fn add_graph(&mut self, graph: &GraphProto) {
        self.values += graph.input.len() + graph.output.len() + graph.initializer.len();
        self.add_nodes(&graph.node);
    }

    fn add_nodes(&mut self, nodes: &[NodeProto]) {
        self.nodes += nodes.len();
        for node in nodes {
            self.values += node.input.len() + node.output.len();
            for attribute in &node.attribute {
                let graphs = attribute.g.as_deref().into_iter().chain(&attribute.graphs);
                graphs.for_each(|graph| self.add_graph(graph));
            }
        }
    }
}

/// Fails if a model has more nodes or values than a page can show.
pub(crate) fn check_page(path: &Path, model: &ModelProto) -> Result<(), Failure> {
    let Size { nodes, values } = Size::of(model);
    let advice = "use `jax2onnx show`, which has no such limit";
    let refuse = |count: usize, what: &str, most: usize| {
        Err(Failure::Request(format!(
            "{}: the model has {count} {what}, but a page shows at most {most}; {advice}",
            path.display()
        )))
    };
    if nodes > PAGE_NODES {
        return refuse(nodes, "nodes", PAGE_NODES);
    }
    if values > PAGE_VALUES {
        return refuse(values, "operands and results", PAGE_VALUES);
    }
    Ok(())
}

/// Fails if a model has too many nodes or values to be compared.
pub(crate) fn check_comparison(path: &Path, model: &ModelProto) -> Result<(), Failure> {
    let Size { nodes, values } = Size::of(model);
    let refuse = |count: usize, what: &str, most: usize| {
        Err(Failure::Request(format!(
            "{}: the model has {count} {what}; the limit for a comparison is {most}",
            path.display()
        )))
    };
    if nodes > COMPARED_NODES {
        return refuse(nodes, "nodes", COMPARED_NODES);
    }
    if values > COMPARED_VALUES {
        return refuse(values, "operands and results", COMPARED_VALUES);
    }
    Ok(())
}
