//! Rewrites: a node and its neighbourhood, replaced by something that computes the same.

use std::panic::Location;

use onnx::operators::{self, Operator};
use onnx::{Attrs, Builder, Graph, Node, NodeId, Op, Use, ValueId, can_be_output};
use provenance::Stage;
use tensor::{DType, Dim, Tensor, Type};

use crate::Forms;
use crate::rewrites::{Arranged, Folded, Shortened};
use crate::runner::Rule;

/// A replacement of one node, found by looking at it and around it.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// The name of its file.
    pub name: &'static str,
    /// The operators it looks at.
    pub roots: Roots,
    /// The values that replace the results of the root, or why it stays.
    pub try_at: fn(&mut Match<'_>) -> Result<Vec<ValueId>, Skip>,
}

impl Rule for Rewrite {
    type Glance = ();

    fn glance(_graph: &Graph, _node: &Node) {}

    fn name(&self) -> &'static str {
        self.name
    }

    fn roots(&self) -> Vec<&'static str> {
        self.roots.names()
    }

    fn try_at(&self, m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
        (self.try_at)(m)
    }
}

/// The operators that a rewrite looks at.
#[derive(Clone, Copy, Debug)]
pub enum Roots {
    /// These.
    Named(&'static [&'static str]),
    /// Those with a property.
    With(fn(&Operator) -> bool),
}

impl Roots {
    /// The names of the operators.
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Roots::Named(names) => names.to_vec(),
            Roots::With(property) => operators::names(property),
        }
    }

    /// Returns `true` if `op` is one of them.
    pub fn has(self, op: Op) -> bool {
        match self {
            Roots::Named(names) => op.domain.is_empty() && names.contains(&op.name),
            Roots::With(property) => property(op.operator()),
        }
    }
}

/// Why a node stays as it is.
#[derive(Debug)]
pub enum Skip {
    /// The rewrite does not apply here.
    Because(&'static str),
    /// An operator is spelled out here, but cannot be one node for this reason.
    Missed(String),
    /// The rewrite tried to emit an invalid node, which is a bug.
    Failed(onnx::Error),
}

impl From<&'static str> for Skip {
    fn from(reason: &'static str) -> Self {
        Skip::Because(reason)
    }
}

impl From<onnx::Error> for Skip {
    fn from(error: onnx::Error) -> Self {
        Skip::Failed(error)
    }
}

/// A node that a rewrite looks at, with the means to inspect its neighbourhood and to emit nodes.
///
/// Emitted nodes go right before the root. If the rewrite skips, they are removed.
#[derive(Debug)]
pub struct Match<'a> {
    builder: Builder<'a>,
    forms: &'a Forms,
    memory: &'a mut Memory,
    root: NodeId,
    fresh: Vec<NodeId>,
}

/// What rewrites found out at one node and may need again at others.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) arranged: Arranged,
    pub(crate) folded: Folded,
    pub(crate) shortened: Shortened,
}

impl<'a> Match<'a> {
    pub(crate) fn new(
        builder: Builder<'a>,
        forms: &'a Forms,
        memory: &'a mut Memory,
        root: NodeId,
    ) -> Self {
        Self { builder, forms, memory, root, fresh: Vec::new() }
    }

    /// What was found out before.
    pub(crate) fn known(&self) -> &Memory {
        self.memory
    }

    /// What was found out before, to be added to.
    pub(crate) fn memory(&mut self) -> &mut Memory {
        self.memory
    }

    /// Lets the rule `name` do its work. If it skips, what it emitted is removed.
    pub(crate) fn attempt<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Self) -> Result<T, Skip>,
    ) -> Result<T, Skip> {
        self.builder.set_rule(name, Stage::Rewrite);
        let outcome = work(self);
        if outcome.is_err() {
            self.builder.discard(self.fresh.drain(..));
        }
        outcome
    }

    /// What was emitted.
    pub(crate) fn into_fresh(self) -> Vec<NodeId> {
        self.fresh
    }

    /// The current graph.
    pub fn graph(&self) -> &Graph {
        self.builder.graph()
    }

    /// Which operators may become one node.
    pub fn forms(&self) -> &Forms {
        self.forms
    }

    /// The id of the node to replace.
    pub fn id(&self) -> NodeId {
        self.root
    }

    /// The node to replace.
    pub fn root(&self) -> &Node {
        self.graph().node(self.root)
    }

    /// The operand of the root at `index`.
    pub fn operand(&self, index: usize) -> Result<ValueId, Skip> {
        self.root().input(index).ok_or(Skip::Because("an operand is missing"))
    }

    /// The one result of the root.
    pub fn result(&self) -> Result<ValueId, Skip> {
        match *self.root().outputs {
            [value] => Ok(value),
            _ => Err(Skip::Because("the node has several results")),
        }
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        self.graph().ty(value)
    }

    /// The node that computes `value`, if its operator is one of ONNX's `ops`.
    pub fn producer(&self, value: ValueId, ops: &[&str]) -> Option<&Node> {
        let node = self.graph().node(self.graph().producer(value)?);
        (node.op.domain.is_empty() && ops.contains(&node.op.name)).then_some(node)
    }

    /// The node that computes `value`, if its operator has the property.
    pub fn producer_with(&self, value: ValueId, property: fn(&Operator) -> bool) -> Option<&Node> {
        let node = self.graph().node(self.graph().producer(value)?);
        property(node.operator()).then_some(node)
    }

    /// Whether `value` is read at one place only.
    pub fn is_used_once(&self, value: ValueId) -> bool {
        self.graph().value(value).uses().len() == 1
    }

    /// The tensor of `value`, if it is a constant. A parameter is not one.
    pub fn constant(&self, value: ValueId) -> Option<&Tensor> {
        self.graph().constant(value)
    }

    /// The integers that the constant `value` holds.
    pub fn ints(&self, value: ValueId) -> Option<Vec<i64>> {
        self.constant(value)?.to_i64s()
    }

    /// Whether every place that reads `old` is a result of its block that `new` cannot be directly.
    pub fn is_bound_to_outputs(&self, old: ValueId, new: ValueId) -> bool {
        self.graph().value(old).uses().all(|place| match place {
            Use::Operand(..) => false,
            Use::Output(block, _) => !can_be_output(self.graph(), new, block),
        })
    }

    /// Emits a node with one result.
    #[track_caller]
    pub fn op(
        &mut self,
        op: &'static str,
        inputs: &[ValueId],
        attrs: Attrs,
    ) -> Result<ValueId, Skip> {
        let inputs = inputs.iter().map(|v| Some(*v)).collect();
        self.emit(Op::onnx(op), inputs, attrs, Location::caller())
    }

    /// Emits a node with `count` results. Optional operands may be omitted.
    #[track_caller]
    pub fn op_many(
        &mut self,
        op: &'static str,
        inputs: Vec<Option<ValueId>>,
        attrs: Attrs,
        count: usize,
    ) -> Result<Vec<ValueId>, Skip> {
        let results = self.builder.emit(Op::onnx(op), inputs, attrs, count, Location::caller())?;
        self.fresh.extend(results.first().and_then(|value| self.graph().producer(*value)));
        Ok(results)
    }

    /// Emits a node like `node`, with other operands. It must have one result and no subgraphs. It
    /// computes what `node` does, so it has its origin, followed by the root's sources.
    #[track_caller]
    pub fn like(&mut self, node: &Node, inputs: Vec<Option<ValueId>>) -> Result<ValueId, Skip> {
        let (at, attrs) = (Location::caller(), node.attrs.clone());
        let made = self.builder.like(node.origin, |b| b.emit(node.op, inputs, attrs, 1, at));
        self.first(made?)
    }

    fn emit(
        &mut self,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        attrs: Attrs,
        at: &'static Location<'static>,
    ) -> Result<ValueId, Skip> {
        let outputs = self.builder.emit(op, inputs, attrs, 1, at)?;
        self.first(outputs)
    }

    /// The first result of a node that was emitted.
    fn first(&mut self, outputs: Vec<ValueId>) -> Result<ValueId, Skip> {
        let value = outputs.first().copied().ok_or("a node without results")?;
        self.fresh.extend(self.graph().producer(value));
        Ok(value)
    }

    /// A constant.
    pub fn tensor(&mut self, tensor: Tensor) -> ValueId {
        self.builder.constant(tensor)
    }

    /// A constant of rank zero.
    pub fn scalar(&mut self, dtype: DType, number: f64) -> Result<ValueId, Skip> {
        let tensor = Tensor::scalar(dtype, number);
        Ok(self.tensor(tensor.ok_or("the type cannot represent the number")?))
    }

    /// A constant that takes the place and the name of `parameter`, which must not be read but by
    /// what is being replaced.
    pub fn rename(&mut self, parameter: ValueId, tensor: Tensor) -> ValueId {
        let name = self.builder.graph_mut().take_name(parameter);
        self.named(name, tensor)
    }

    /// A constant that the root computed from `parameter`, named after both.
    pub fn derived(&mut self, parameter: ValueId, tensor: Tensor) -> ValueId {
        let name = format!("{}/{}", self.graph().value(parameter).name, self.root().op.name);
        self.named(name, tensor)
    }

    /// A parameter.
    pub fn named(&mut self, name: String, tensor: Tensor) -> ValueId {
        self.builder.graph_mut().add_parameter(name, tensor)
    }

    /// The sizes `dims` as a vector of 64-bit integers. Symbolic ones are read off an input of the
    /// root's block that has them, so that whoever asks gets the same nodes, or else off `x`.
    pub fn sizes(&mut self, dims: &[Dim], x: ValueId) -> Result<ValueId, Skip> {
        if let Some(known) = dims.iter().map(Dim::as_known).collect::<Option<Vec<_>>>() {
            return Ok(self.i64s(&known));
        }
        let inputs = self.graph().block(self.root().block()).inputs.clone();
        let mut parts = Vec::new();
        let mut rest = dims;
        while let Some(first) = rest.first() {
            if let Some(known) = first.as_known() {
                parts.push(self.i64s(&[known]));
                rest = &rest[1..];
                continue;
            }
            // The longest run of axes that one value has.
            let runs = inputs.iter().chain([&x]).flat_map(|value| {
                let shape = &self.ty(*value).shape;
                (0..shape.len()).map(move |at| {
                    let same = shape[at..].iter().zip(rest).take_while(|(a, b)| a == b);
                    (*value, at, same.count())
                })
            });
            let best = runs.fold(None, |best: Option<(ValueId, usize, usize)>, run| {
                if run.2 > best.map_or(0, |best| best.2) { Some(run) } else { best }
            });
            let (value, at, count) = best.ok_or("a size is not known from an input")?;
            let (start, end) = (at as i64, (at + count) as i64);
            parts.push(self.op("Shape", &[value], onnx::attrs! { start: start, end: end })?);
            rest = &rest[count..];
        }
        match *parts {
            [one] => Ok(one),
            _ => self.op("Concat", &parts, onnx::attrs! { axis: 0 }),
        }
    }

    /// A constant vector of 64-bit integers.
    pub fn i64s(&mut self, values: &[i64]) -> ValueId {
        self.builder.i64s(values)
    }
}
