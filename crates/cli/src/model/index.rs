//! An index of all nodes of a model: those of the main graph, of subgraphs and of functions.

use std::cell::OnceCell;
use std::sync::LazyLock;

use onnx_file::proto::{
    FunctionProto, GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
};
use rustc_hash::FxHashMap;

use super::calls::Calls;
use super::{Fused, Model, OptimizedNode, tensor_text, type_text};

/// The owner of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyKind<'m> {
    /// The model's main graph.
    Main,
    /// A subgraph in an attribute: the node, and the attribute's name.
    Inner(usize, &'m str),
    /// A function.
    Function(&'m FunctionProto),
}

/// A list of nodes and the values visible to them.
#[derive(Debug)]
pub(crate) struct Body<'m> {
    /// The owner of the body.
    pub(crate) kind: BodyKind<'m>,
    /// The graph, unless the body is a function.
    pub(crate) graph: Option<&'m GraphProto>,
    /// The enclosing body, whose values are also visible.
    parent: Option<usize>,
    types: FxHashMap<&'m str, &'m TypeProto>,
    tensors: FxHashMap<&'m str, &'m TensorProto>,
}

/// A node and the body that contains it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'m> {
    pub(crate) proto: &'m NodeProto,
    /// The body that contains it.
    pub(crate) body: usize,
}

/// An index of all nodes of a model. A node's subgraphs follow it; functions come last.
#[derive(Debug)]
pub(crate) struct Index<'m> {
    pub(crate) model: &'m Model,
    pub(crate) nodes: Vec<Node<'m>>,
    /// All bodies, the main graph's first.
    pub(crate) bodies: Vec<Body<'m>>,
    pub(crate) graph: &'m GraphProto,
    by_name: FxHashMap<&'m str, usize>,
    /// Names that several nodes share, with all but the first of these nodes. After inlining, names
    /// are unique only within a graph.
    same_name: FxHashMap<&'m str, Vec<usize>>,
    by_output: FxHashMap<&'m str, usize>,
    by_input: FxHashMap<&'m str, usize>,
    /// The nodes resolved against the source map, if there is one.
    pub(super) fused: Option<Fused<'m>>,
    calls: OnceCell<Calls>,
}

impl<'m> Index<'m> {
    /// Indexes the nodes of `model`.
    pub(crate) fn new(model: &'m Model) -> Self {
        static NO_GRAPH: LazyLock<GraphProto> = LazyLock::new(GraphProto::default);
        let graph = model.proto.graph.as_ref().unwrap_or(&NO_GRAPH);
        let mut index = Self {
            model,
            nodes: Vec::new(),
            bodies: Vec::new(),
            graph,
            by_name: FxHashMap::default(),
            same_name: FxHashMap::default(),
            by_output: FxHashMap::default(),
            by_input: FxHashMap::default(),
            fused: None,
            calls: OnceCell::new(),
        };
        index.add_graph(BodyKind::Main, graph, None);
        for function in &model.proto.functions {
            let types = declared(&[&function.value_info]);
            let (kind, tensors) = (BodyKind::Function(function), FxHashMap::default());
            index.bodies.push(Body { kind, graph: None, parent: None, types, tensors });
            index.add_nodes(index.bodies.len() - 1, &function.node);
        }
        for (position, node) in index.nodes.iter().enumerate() {
            let name = node.proto.name.as_str();
            if *index.by_name.entry(name).or_insert(position) != position && !name.is_empty() {
                index.same_name.entry(name).or_default().push(position);
            }
            for output in &node.proto.output {
                index.by_output.entry(output).or_insert(position);
            }
            for input in &node.proto.input {
                index.by_input.entry(input).or_insert(position);
            }
        }
        let optimized = |node: &Node<'m>| OptimizedNode {
            name: &node.proto.name,
            op: &node.proto.op_type,
            body: node.body,
            inputs: &node.proto.input,
            outputs: &node.proto.output,
        };
        let fused = |map| Fused::new(map, index.nodes.iter().map(optimized).collect());
        index.fused = model.map.as_ref().map(fused);
        index.by_name.remove("");
        index.by_input.remove("");
        index.by_output.remove("");
        index
    }

    fn add_graph(&mut self, kind: BodyKind<'m>, graph: &'m GraphProto, parent: Option<usize>) {
        let types = declared(&[&graph.value_info, &graph.output, &graph.input]);
        let tensors = graph.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor));
        let tensors = tensors.collect();
        self.bodies.push(Body { kind, graph: Some(graph), parent, types, tensors });
        self.add_nodes(self.bodies.len() - 1, &graph.node);
    }

    fn add_nodes(&mut self, body: usize, nodes: &'m [NodeProto]) {
        for proto in nodes {
            let owner = self.nodes.len();
            self.nodes.push(Node { proto, body });
            for attribute in &proto.attribute {
                for graph in attribute.g.as_deref().into_iter().chain(&attribute.graphs) {
                    let kind = BodyKind::Inner(owner, &attribute.name);
                    self.add_graph(kind, graph, Some(body));
                }
            }
        }
    }

    /// Returns the calls to the model's functions.
    pub(crate) fn calls(&self) -> &Calls {
        self.calls.get_or_init(|| Calls::new(self))
    }

    /// Returns the node named `name`.
    pub(crate) fn named(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns the other nodes with the same name as `node`.
    pub(crate) fn namesakes(&self, node: usize) -> impl Iterator<Item = usize> {
        let name = self.nodes[node].proto.name.as_str();
        let others = self
            .by_name
            .get(name)
            .into_iter()
            .chain(self.same_name.get(name).into_iter().flatten());
        others.copied().filter(move |other| *other != node)
    }

    /// Returns the node that computes the value `name`.
    pub(crate) fn producer(&self, name: &str) -> Option<usize> {
        self.by_output.get(name).copied()
    }

    /// Returns the first node that reads the value `name`.
    pub(crate) fn reader(&self, name: &str) -> Option<usize> {
        self.by_input.get(name).copied()
    }

    /// Returns `true` if the model has an input or an initializer named `name`.
    pub(crate) fn has_input(&self, name: &str) -> bool {
        self.graph.input.iter().any(|input| input.name == name) || self.tensor(0, name).is_some()
    }

    /// Returns the names of the model's inputs, except initializers.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &'m str> {
        let inputs = self.graph.input.iter().map(|input| input.name.as_str());
        inputs.filter(|name| self.tensor(0, name).is_none())
    }

    /// Returns the names of all nodes, then of all results.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'m str> {
        let nodes = self.nodes.iter().map(|node| node.proto.name.as_str());
        let results = self.nodes.iter().flat_map(|node| &node.proto.output).map(String::as_str);
        nodes.chain(results).filter(|name| !name.is_empty())
    }

    /// Returns the node whose subgraph contains `node`.
    pub(crate) fn owner(&self, node: usize) -> Option<usize> {
        match self.bodies[self.nodes[node].body].kind {
            BodyKind::Inner(owner, ..) => Some(owner),
            _ => None,
        }
    }

    /// Returns the function that contains `node`.
    pub(crate) fn function(&self, node: usize) -> Option<&'m FunctionProto> {
        match self.bodies[self.function_body(node)?].kind {
            BodyKind::Function(function) => Some(function),
            _ => None,
        }
    }

    /// Returns the body of the function that contains `node`.
    pub(crate) fn function_body(&self, node: usize) -> Option<usize> {
        let next = |body: &usize| self.bodies[*body].parent;
        let outermost = std::iter::successors(Some(self.nodes[node].body), next).last()?;
        matches!(self.bodies[outermost].kind, BodyKind::Function(_)).then_some(outermost)
    }

    /// Returns the initializer named `name` that is visible in `body`.
    pub(crate) fn tensor(&self, body: usize, name: &str) -> Option<&'m TensorProto> {
        self.visible(body).find_map(|body| body.tensors.get(name).copied())
    }

    /// Returns the type of the value `name` in `body`; `?` if it is unknown.
    pub(crate) fn type_of(&self, body: usize, name: &str) -> String {
        let known = self.visible(body).find_map(|body| {
            let ty = body.types.get(name).map(|ty| type_text(ty));
            ty.or_else(|| body.tensors.get(name).map(|tensor| tensor_text(tensor)))
        });
        known.unwrap_or_else(|| "?".to_owned())
    }

    /// Returns the types of a node's results.
    pub(crate) fn results(&self, node: &Node<'_>) -> String {
        let types = node.proto.output.iter().map(|name| self.type_of(node.body, name));
        types.collect::<Vec<_>>().join(", ")
    }

    /// Returns a body and the bodies that enclose it.
    fn visible(&self, body: usize) -> impl Iterator<Item = &Body<'m>> {
        let next = |body: &&Body<'m>| body.parent.and_then(|parent| self.bodies.get(parent));
        std::iter::successors(self.bodies.get(body), next)
    }
}

impl Node<'_> {
    /// Returns the operator, with its domain unless it is a standard one.
    pub(crate) fn op(&self) -> String {
        match self.proto.domain.as_str() {
            "" | "ai.onnx" => self.proto.op_type.clone(),
            domain => format!("{domain}.{}", self.proto.op_type),
        }
    }
}

fn declared<'m>(lists: &[&'m Vec<ValueInfoProto>]) -> FxHashMap<&'m str, &'m TypeProto> {
    let infos = lists.iter().flat_map(|list| list.iter());
    infos.filter_map(|info| Some((info.name.as_str(), info.r#type.as_ref()?))).collect()
}

#[cfg(test)]
mod tests {
    use onnx_file::proto::ModelProto;

    use super::*;

    #[test]
    fn inputs_are_values_that_no_node_computes() {
        let value = |name: &str| ValueInfoProto { name: name.to_owned(), ..Default::default() };
        let tensor = |name: &str| TensorProto { name: name.to_owned(), ..Default::default() };
        let graph = GraphProto {
            input: vec![value("x"), value("w")],
            output: vec![value("y")],
            initializer: vec![tensor("w"), tensor("v")],
            ..GraphProto::default()
        };
        let proto = ModelProto { graph: Some(graph), ..ModelProto::default() };
        let model = Model { path: None, proto, map: None, map_path: None, remarks: vec![] };
        let index = Index::new(&model);
        assert_eq!(
            ["x", "w", "v", "y"].map(|name| index.has_input(name)),
            [true, true, true, false]
        );
        assert_eq!(index.inputs().collect::<Vec<_>>(), ["x"]);
    }
}
