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

/// The largest model that a command accepts.
pub(crate) struct LargestModel {
    nodes: usize,
    /// The number of operands and results of all nodes.
    values: usize,
    /// The rest of the error message, after the size of the model and before the limit.
    limit: &'static str,
    advice: &'static str,
}

/// The largest model on a page.
pub(crate) const PAGE: LargestModel = LargestModel {
    nodes: 250_000,
    values: 1_500_000,
    limit: ", but a page shows at most",
    advice: "; use `jax2onnx show`, which has no such limit",
};

/// The largest model that is compared with another one.
pub(crate) const COMPARISON: LargestModel = LargestModel {
    nodes: 500_000,
    values: 3_000_000,
    limit: "; the limit for a comparison is",
    advice: "",
};

impl LargestModel {
    /// Fails if a model has more nodes or values.
    pub(crate) fn check(&self, path: &Path, model: &ModelProto) -> Result<(), Failure> {
        let Size { nodes, values } = Size::of(model);
        for (count, what, most) in
            [(nodes, "nodes", self.nodes), (values, "operands and results", self.values)]
        {
            if count > most {
                let Self { limit, advice, .. } = self;
                let why = format!("the model has {count} {what}{limit} {most}{advice}");
                return Err(Failure::file(path, why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onnx_file::proto::{AttributeProto, FunctionProto, TensorProto, ValueInfoProto};

    use super::*;

    #[test]
    fn bodies_and_functions_count() {
        let node = |inputs, outputs, body: Option<GraphProto>| NodeProto {
            input: vec![String::new(); inputs],
            output: vec![String::new(); outputs],
            attribute: vec![AttributeProto { g: body.map(Box::new), ..Default::default() }],
            ..Default::default()
        };
        let graph = |node| GraphProto {
            node: vec![node],
            input: vec![ValueInfoProto::default(); 7],
            output: vec![ValueInfoProto::default(); 11],
            initializer: vec![TensorProto::default(); 13],
            ..Default::default()
        };
        let body = graph(node(3, 2, None));
        let function = FunctionProto { node: vec![node(17, 19, None)], ..Default::default() };
        let model = ModelProto {
            graph: Some(graph(node(5, 1, Some(body)))),
            functions: vec![function],
            ..Default::default()
        };
        let Size { nodes, values } = Size::of(&model);
        assert_eq!((nodes, values), (3, 2 * (7 + 11 + 13) + 5 + 1 + 3 + 2 + 17 + 19));
    }
}
