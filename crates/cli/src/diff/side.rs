//! One of the two models of a comparison.

use std::path::{Path, PathBuf};

use onnx_file::proto::{GraphProto, TensorProto};
use rustc_hash::FxHashMap;

use crate::failure::Failure;
use crate::limits::COMPARISON;
use crate::model::{BodyKind, Index, Makers, Model, Origin};

/// A model, indexed for comparison.
#[derive(Debug)]
pub(crate) struct Side<'m> {
    pub(crate) index: Index<'m>,
    pub(super) path: PathBuf,
    pub(super) makers: Makers<'m>,
    /// The nodes of each body, in order.
    pub(super) nodes_of: Vec<Vec<usize>>,
    /// The bodies of each node, with the names of their attributes.
    pub(super) bodies_of: FxHashMap<usize, Vec<(&'m str, usize)>>,
    /// The parameters of each body.
    pub(super) tensors: Vec<&'m [TensorProto]>,
    /// The results of each body.
    pub(super) outputs: Vec<Vec<&'m str>>,
    /// The positions of the inputs of each body.
    inputs: Vec<FxHashMap<&'m str, usize>>,
    /// The first source of each node.
    pub(super) origins: Vec<Option<Origin<'m>>>,
    /// The module of each node.
    pub(super) scopes: Vec<String>,
}

impl<'m> Side<'m> {
    /// Opens a model for comparison. Its tensors record the location of their contents in the file.
    pub(crate) fn open(path: &Path) -> Result<Model, Failure> {
        let model = Model::open_alone(path)?;
        COMPARISON.check(path, &model.proto)?;
        Ok(model)
    }

    /// Indexes `model`.
    pub(crate) fn new(model: &'m Model) -> Self {
        let index = Index::new(model);
        let mut nodes_of = vec![Vec::new(); index.bodies.len()];
        for (position, node) in index.nodes.iter().enumerate() {
            nodes_of[node.body].push(position);
        }
        let mut bodies_of: FxHashMap<usize, Vec<(&'m str, usize)>> = FxHashMap::default();
        for (body, entry) in index.bodies.iter().enumerate() {
            if let BodyKind::Inner(owner, attribute) = entry.kind {
                bodies_of.entry(owner).or_default().push((attribute, body));
            }
        }
        let mut tensors: Vec<&'m [TensorProto]> = vec![&[]; index.bodies.len()];
        let mut outputs: Vec<Vec<&'m str>> = vec![Vec::new(); index.bodies.len()];
        let mut inputs: Vec<FxHashMap<&'m str, usize>> = vec![Default::default(); outputs.len()];
        let mut add = |body: usize, graph: &'m GraphProto| {
            tensors[body] = &graph.initializer;
            outputs[body] = graph.output.iter().map(|value| value.name.as_str()).collect();
            let names = graph.input.iter().map(|value| value.name.as_str());
            inputs[body] = names.enumerate().map(|(at, name)| (name, at)).collect();
        };
        add(0, index.graph);
        for (owner, bodies) in &bodies_of {
            let attributes = &index.nodes[*owner].proto.attribute;
            let graphs =
                attributes.iter().flat_map(|a| a.g.as_deref().into_iter().chain(&a.graphs));
            bodies.iter().zip(graphs).for_each(|((_, body), graph)| add(*body, graph));
        }
        for (body, entry) in index.bodies.iter().enumerate() {
            if let BodyKind::Function(function) = entry.kind {
                outputs[body] = function.output.iter().map(String::as_str).collect();
                let names = function.input.iter().map(String::as_str);
                inputs[body] = names.enumerate().map(|(at, name)| (name, at)).collect();
            }
        }
        let origins = (0..index.nodes.len()).map(|node| index.origin(node)).collect();
        let scope = |node| match index.function(node) {
            Some(function) => {
                let inner = index.scope(node);
                let slash = if inner.is_empty() { "" } else { "/" };
                format!("function {}{slash}{inner}", function.name)
            }
            None => index.scope(node).into_owned(),
        };
        let scopes = (0..index.nodes.len()).map(scope).collect();
        let path = model.path.clone().unwrap_or_default();
        let makers = Makers::new(&index);
        Self { index, path, makers, nodes_of, bodies_of, tensors, outputs, inputs, origins, scopes }
    }

    /// Returns the file of a node, or else its function, and the line number.
    pub(super) fn place(&self, node: usize) -> Option<(&'m str, u32)> {
        let site = self.origins[node].as_ref()?.site.as_ref()?;
        Some((if site.file.is_empty() { site.function } else { site.file }, site.span.line))
    }

    /// Returns the value that `name` refers to in `body`.
    pub(super) fn operand(&self, mut body: usize, name: &'m str) -> Operand<'m> {
        if let Some(node) = self.makers.find(&self.index, body, name) {
            let outputs = &self.index.nodes[node].proto.output;
            return Operand::Result(node, outputs.iter().position(|output| output == name));
        }
        if let Some(tensor) = self.index.tensor(body, name) {
            return Operand::Tensor(tensor);
        }
        loop {
            if let Some(at) = self.inputs[body].get(name) {
                return Operand::Input(body, *at);
            }
            let BodyKind::Inner(owner, ..) = self.index.bodies[body].kind else {
                return Operand::Other(name);
            };
            body = self.index.nodes[owner].body;
        }
    }
}

/// An operand of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand<'m> {
    /// A result of a node: the node and the position of the result.
    Result(usize, Option<usize>),
    /// A parameter.
    Tensor(&'m TensorProto),
    /// An input of a body: the body and the position.
    Input(usize, usize),
    /// Any other name, or an omitted operand.
    Other(&'m str),
}
