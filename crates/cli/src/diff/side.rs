//! One of the two models of a comparison.

use std::path::{Path, PathBuf};

use onnx_file::proto::{TensorProto, ValueInfoProto};
use rustc_hash::FxHashMap;

use crate::failure::Failure;
use crate::limits::COMPARISON;
use crate::model::{BodyKind, Index, Makers, Model, Nesting, Origin};

/// A model, indexed for comparison.
#[derive(Debug)]
pub(crate) struct Side<'m> {
    pub(crate) index: Index<'m>,
    pub(super) path: PathBuf,
    pub(crate) makers: Makers<'m>,
    pub(super) nesting: Nesting<'m>,
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
        let mut tensors: Vec<&'m [TensorProto]> = Vec::new();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for body in &index.bodies {
            let (from, to): (Vec<&str>, Vec<&str>) = match (body.kind, body.graph) {
                (BodyKind::Function(function), _) => {
                    let names = |list: &'m [String]| list.iter().map(String::as_str).collect();
                    (names(&function.input), names(&function.output))
                }
                (_, graph) => {
                    let names = |list: &'m [ValueInfoProto]| {
                        list.iter().map(|value| value.name.as_str()).collect()
                    };
                    graph
                        .map(|graph| (names(&graph.input), names(&graph.output)))
                        .unwrap_or_default()
                }
            };
            tensors.push(body.graph.map_or(&[], |graph| &graph.initializer));
            inputs.push(from.into_iter().enumerate().map(|(at, name)| (name, at)).collect());
            outputs.push(to);
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
        let (makers, nesting) = (Makers::new(&index), Nesting::new(&index));
        Self { index, path, makers, nesting, tensors, outputs, inputs, origins, scopes }
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
