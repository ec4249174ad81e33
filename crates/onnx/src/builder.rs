//! Emits nodes. Rules, rewrites and legalisation all use [`Builder::op`].

use std::panic::Location;

use provenance::{CallId, Emitter, OriginId, Origins, ScopeId, Site, Stage};
use tensor::{DType, Dim, Tensor, Type};

use crate::{Attrs, BlockId, Error, Graph, NodeId, Op, Result, ValueId, attrs, infer};

/// The purpose of the emitted nodes.
#[derive(Clone, Debug)]
pub enum Source {
    /// An equation of the traced program, or the model's boundary.
    Equation {
        /// The equation and the equations that enclose it.
        call: Option<CallId>,
        /// The module of the equation.
        scope: ScopeId,
    },
    /// A node of this origin, which is replaced. The editor adds the origins of other nodes that are
    /// replaced with it.
    Replacing(OriginId),
}

/// An emitter of nodes into one block. It infers types and records origins, so callers deal with
/// neither.
#[derive(Debug)]
pub struct Builder<'a> {
    /// The model being built.
    pub(crate) graph: &'a mut Graph,
    /// The arena of origins.
    pub(crate) origins: &'a mut Origins,
    /// The rule or rewrite at work.
    pub(crate) name: &'static str,
    /// The stage of the rule or rewrite.
    pub(crate) stage: Stage,
    /// The statement that emits the nodes; `None` for the one that calls the builder.
    pub(crate) site: Option<Site>,
    /// The equation or nodes that the rule or rewrite works on.
    pub(crate) source: Source,
    /// The block that nodes are added to.
    pub(crate) block: BlockId,
    /// The node that new nodes are inserted before; `None` for the end of the block.
    pub(crate) before: Option<NodeId>,
}

impl<'a> Builder<'a> {
    /// Returns a builder that adds nodes at the end of `block`.
    pub fn new(
        graph: &'a mut Graph,
        origins: &'a mut Origins,
        (name, stage): (&'static str, Stage),
        source: Source,
        block: BlockId,
    ) -> Self {
        Self { graph, origins, name, stage, site: None, source, block, before: None }
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        self.graph
    }

    /// Returns the graph, to add to it and to name values.
    pub fn graph_mut(&mut self) -> &mut Graph {
        self.graph
    }

    /// Returns the origins.
    pub fn origins(&self) -> &Origins {
        self.origins
    }

    /// Returns the graph and the origins.
    pub fn parts_mut(&mut self) -> (&mut Graph, &mut Origins) {
        (self.graph, self.origins)
    }

    /// Returns the block that nodes are added to.
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// Adds nodes to the end of `block` from now on. Returns the block before.
    pub fn enter(&mut self, block: BlockId) -> BlockId {
        std::mem::replace(&mut self.block, block)
    }

    /// Emits nodes for another rule from now on. Returns the rule before.
    pub fn set_rule(&mut self, name: &'static str, stage: Stage) -> (&'static str, Stage) {
        let before = (self.name, self.stage);
        (self.name, self.stage) = (name, stage);
        before
    }

    /// Emits nodes on behalf of a statement from now on, or of the callers. Returns the statement before.
    pub fn set_site(&mut self, site: Option<Site>) -> Option<Site> {
        std::mem::replace(&mut self.site, site)
    }

    /// Emits a node with one result.
    #[track_caller]
    pub fn op(&mut self, op: &'static str, inputs: &[ValueId], attrs: Attrs) -> Result<ValueId> {
        let inputs = inputs.iter().map(|v| Some(*v)).collect();
        self.one(Op::onnx(op), inputs, attrs, Location::caller())
    }

    /// Emits a node with one result. Optional operands may be omitted.
    #[track_caller]
    pub fn op_optional(
        &mut self,
        op: &'static str,
        inputs: &[Option<ValueId>],
        attrs: Attrs,
    ) -> Result<ValueId> {
        self.one(Op::onnx(op), inputs.to_vec(), attrs, Location::caller())
    }

    /// Emits a node with `count` results.
    #[track_caller]
    pub fn op_many(
        &mut self,
        op: &'static str,
        inputs: &[ValueId],
        attrs: Attrs,
        count: usize,
    ) -> Result<Vec<ValueId>> {
        let inputs = inputs.iter().map(|v| Some(*v)).collect();
        self.emit(Op::onnx(op), inputs, attrs, count, Location::caller())
    }

    fn one(
        &mut self,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        attrs: Attrs,
        at: &'static Location<'static>,
    ) -> Result<ValueId> {
        let outputs = self.emit(op, inputs, attrs, 1, at)?;
        outputs.first().copied().ok_or_else(|| Error::Graph("a node has no results".to_owned()))
    }

    /// Emits a node on behalf of the statement at `at`.
    pub fn emit(
        &mut self,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        attrs: Attrs,
        count: usize,
        at: impl Into<Site>,
    ) -> Result<Vec<ValueId>> {
        let call =
            infer::Call { graph: self.graph, op: &op, inputs: &inputs, attrs: &attrs, count };
        let types = infer::infer(&call)?;
        let content = infer::content(&call, &types);
        let outputs = self.emit_typed((op, inputs, attrs), types, at);
        if let (Some(content), [result]) = (content, outputs.as_slice()) {
            self.graph.value_mut(*result).content = Some(content);
        }
        Ok(outputs)
    }

    /// Emits a node whose results have the given types, for operators without type inference.
    pub fn emit_typed(
        &mut self,
        node: (Op, Vec<Option<ValueId>>, Attrs),
        types: Vec<Type>,
        at: impl Into<Site>,
    ) -> Vec<ValueId> {
        let origin = self.origin(at);
        let node = self.graph.add_node(self.block, self.before, node, types, origin);
        self.graph.node(node).outputs.clone()
    }

    /// Emits a call of the model's function `op`, whose results have the given types.
    #[track_caller]
    pub fn call(&mut self, op: Op, inputs: &[ValueId], results: Vec<Type>) -> NodeId {
        let origin = self.origin(Location::caller());
        let node = (op, inputs.iter().map(|v| Some(*v)).collect(), Attrs::new());
        self.graph.add_node(self.block, self.before, node, results, origin)
    }

    /// Adds a block with the nodes that `fill` emits and the results that it returns.
    pub fn body(
        &mut self,
        fill: impl FnOnce(&mut Self, BlockId) -> Result<Vec<ValueId>>,
    ) -> Result<BlockId> {
        let block = self.graph.add_block();
        let (outer, before) = (std::mem::replace(&mut self.block, block), self.before.take());
        let results = fill(self, block);
        (self.block, self.before) = (outer, before);
        self.graph.set_outputs(block, &results?);
        Ok(block)
    }

    /// Lets `emit` emit replacements of a node of this origin.
    pub fn like<T>(&mut self, origin: OriginId, emit: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.source, Source::Replacing(origin));
        let made = emit(self);
        self.source = outer;
        made
    }

    /// Removes an emitted node that has no consumers.
    pub fn discard(&mut self, node: NodeId) {
        self.graph.remove_node(node);
    }

    /// Returns the emitter for the statement at `at`.
    pub fn emitter(&self, at: impl Into<Site>) -> Emitter {
        let at = self.site.unwrap_or_else(|| at.into());
        Emitter { name: self.name, stage: self.stage, at }
    }

    fn origin(&mut self, at: impl Into<Site>) -> OriginId {
        let emitter = self.emitter(at);
        match &self.source {
            Source::Equation { call, scope } => self.origins.origin(*call, *scope, emitter),
            Source::Replacing(origin) => self.origins.renew(*origin, emitter),
        }
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        self.graph.ty(value)
    }

    /// Returns the element type of a value.
    pub fn dtype(&self, value: ValueId) -> DType {
        self.ty(value).dtype
    }

    /// Returns the shape of a value.
    pub fn shape(&self, value: ValueId) -> &[Dim] {
        &self.ty(value).shape
    }

    /// Returns the number of axes of a value.
    pub fn rank(&self, value: ValueId) -> usize {
        self.ty(value).rank()
    }

    /// Adds a constant.
    pub fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.graph.intern_constant(tensor)
    }

    /// Adds a constant vector of 64-bit integers.
    pub fn i64s(&mut self, values: &[i64]) -> ValueId {
        self.constant(Tensor::i64s(values))
    }

    /// Adds a scalar constant of the given type.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Result<ValueId> {
        let tensor = Tensor::scalar(dtype, value)
            .ok_or_else(|| Error::Graph(format!("{value} cannot be a {dtype} constant")))?;
        Ok(self.constant(tensor))
    }

    /// Adds an integer constant of the given type, which may have more digits than a float.
    pub fn int(&mut self, dtype: DType, value: i128) -> Result<ValueId> {
        let tensor = Tensor::int_scalar(dtype, value)
            .ok_or_else(|| Error::Graph(format!("{value} cannot be a {dtype} constant")))?;
        Ok(self.constant(tensor))
    }

    /// Casts `value` to `dtype`, or returns it unchanged if it has that type.
    #[track_caller]
    pub fn cast(&mut self, value: ValueId, dtype: DType) -> Result<ValueId> {
        if self.dtype(value) == dtype {
            return Ok(value);
        }
        self.op("Cast", &[value], attrs! { to: dtype })
    }

    /// Permutes the axes of `value`, or returns it unchanged if `perm` is the identity.
    #[track_caller]
    pub fn transpose(&mut self, value: ValueId, perm: &[usize]) -> Result<ValueId> {
        if perm.iter().enumerate().all(|(i, p)| i == *p) {
            return Ok(value);
        }
        let perm: Vec<i64> = perm.iter().map(|&p| p as i64).collect();
        self.op("Transpose", &[value], attrs! { perm: perm })
    }

    /// Inserts axes of size one at `axes`, which are positions in the result.
    #[track_caller]
    pub fn unsqueeze(&mut self, value: ValueId, axes: &[i64]) -> Result<ValueId> {
        if axes.is_empty() {
            return Ok(value);
        }
        let axes = self.i64s(axes);
        self.op("Unsqueeze", &[value, axes], Attrs::new())
    }

    /// Removes the axes `axes`, which have size one.
    #[track_caller]
    pub fn squeeze(&mut self, value: ValueId, axes: &[i64]) -> Result<ValueId> {
        if axes.is_empty() {
            return Ok(value);
        }
        let axes = self.i64s(axes);
        self.op("Squeeze", &[value, axes], Attrs::new())
    }
}
