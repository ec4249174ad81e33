//! Rewrites: replace a node and its neighbourhood by an equivalent computation.

use std::panic::Location;

use onnx::facts::Facts;
use onnx::operators::{self, Operator};
use onnx::{Attrs, Builder, Graph, Node, NodeId, Op, Use, ValueId, can_be_output};
use provenance::Stage;
use tensor::{DType, Dim, Tensor, Type};

use crate::Forms;
use crate::rewrites::{Arranged, Folded};
use crate::runner::Rule;

/// A replacement of one node, based on the node and its neighbourhood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rewrite {
    /// The name of its file.
    pub name: &'static str,
    /// The operators that it applies to.
    pub roots: Roots,
    pub try_at: TryAt,
}

/// Returns the values that replace the results of the root, or the reason to skip it.
type TryAt = fn(&mut Match<'_>) -> Result<Vec<ValueId>, Skip>;

impl Rewrite {
    /// Creates a rewrite of the operators `roots`.
    pub(crate) const fn of(
        name: &'static str,
        roots: &'static [&'static str],
        try_at: TryAt,
    ) -> Self {
        Self { name, roots: Roots::Named(roots), try_at }
    }

    /// Creates a rewrite of all operators with a property.
    pub(crate) const fn with(
        name: &'static str,
        property: fn(&Operator) -> bool,
        try_at: TryAt,
    ) -> Self {
        Self { name, roots: Roots::With(property), try_at }
    }
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

/// The operators that a rewrite applies to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Roots {
    /// The named operators.
    Named(&'static [&'static str]),
    /// All operators with a property.
    With(fn(&Operator) -> bool),
}

impl Roots {
    /// Returns the names of the operators.
    pub(crate) fn names(self) -> Vec<&'static str> {
        match self {
            Roots::Named(names) => names.to_vec(),
            Roots::With(property) => operators::names(property),
        }
    }

    /// Returns `true` if the operator of `node` is one of these.
    pub(crate) fn has(self, node: &Node) -> bool {
        match self {
            Roots::Named(names) => node.op.domain.is_empty() && names.contains(&node.op.name),
            Roots::With(property) => property(node.operator()),
        }
    }
}

/// The reason why a node is unchanged.
#[derive(Debug)]
pub(crate) enum Skip {
    /// The rewrite does not apply.
    Because(&'static str),
    /// An operator is spelled out here, but cannot become one node for this reason.
    Missed(String),
    /// The rewrite tried to emit an invalid node, which is a bug.
    Failed(onnx::Error),
}

impl Skip {
    /// Skips the node for this reason if `condition` holds.
    pub(crate) fn when(condition: bool, reason: &'static str) -> Result<(), Skip> {
        if condition { Err(Skip::Because(reason)) } else { Ok(()) }
    }
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

/// The node that a rewrite is applied to, with access to its neighbourhood and to the emission of
/// nodes.
///
/// Emitted nodes are inserted before the root. If the rewrite skips, they are removed.
#[derive(Debug)]
pub(crate) struct Match<'a> {
    builder: Builder<'a>,
    forms: &'a Forms,
    /// The cached results.
    pub(crate) memory: &'a mut Memory,
    root: NodeId,
    /// The mark of the editor before the first emitted node.
    mark: usize,
    /// The other nodes to replace.
    pub(crate) others: Vec<(NodeId, ValueId)>,
    /// The nodes that the operator could have replaced as well, and the reasons why it does not.
    pub(crate) left_out: Vec<(NodeId, String)>,
}

/// Results that rewrites cache at one node for use at others.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) arranged: Arranged,
    pub(crate) folded: Folded,
}

/// Returns the first operands of `node`, all of which must be present.
pub(crate) fn operands<const N: usize>(node: &Node) -> Result<[ValueId; N], Skip> {
    let first: Option<Vec<ValueId>> = node.inputs.iter().take(N).copied().collect();
    first.and_then(|first| first.try_into().ok()).ok_or("an operand is missing".into())
}

/// Returns the two operands of `node` in the order that `fits` accepts.
pub(crate) fn either_order(
    node: &Node,
    fits: impl Fn(ValueId, ValueId) -> bool,
) -> Option<(ValueId, ValueId)> {
    let [Some(a), Some(b)] = *node.inputs else { return None };
    [(a, b), (b, a)].into_iter().find(|(a, b)| fits(*a, *b))
}

impl<'a> Match<'a> {
    pub(crate) fn new(
        builder: Builder<'a>,
        forms: &'a Forms,
        memory: &'a mut Memory,
        root: NodeId,
        mark: usize,
    ) -> Self {
        let (others, left_out) = (Vec::new(), Vec::new());
        Self { builder, forms, memory, root, mark, others, left_out }
    }

    /// Runs `work` on behalf of the rule `name`. If it skips, the nodes that it emitted are
    /// removed.
    pub(crate) fn attempt<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Self) -> Result<T, Skip>,
    ) -> Result<T, Skip> {
        self.builder.set_rule(name, Stage::Rewrite);
        let outcome = work(self);
        if outcome.is_err() {
            self.builder.discard_since(self.mark);
            self.others.clear();
            self.left_out.clear();
        }
        outcome
    }

    /// Reports why the new operator does not replace `node` as well.
    pub(crate) fn leave_out(&mut self, node: NodeId, reason: String) {
        self.left_out.push((node, reason));
    }

    /// Replaces the result of another node than the root as well. Its readers must come after the
    /// root, or only change the layout of what the block returns.
    pub(crate) fn replace_too(&mut self, node: NodeId, with: ValueId) {
        self.others.push((node, with));
    }

    /// Returns the current graph.
    pub(crate) fn graph(&self) -> &Graph {
        self.builder.graph()
    }

    /// Starts a question about values of the current graph.
    pub(crate) fn facts(&self) -> Facts<'_> {
        self.graph().facts()
    }

    /// Returns the choice of operators that may become one node.
    pub(crate) fn forms(&self) -> &Forms {
        self.forms
    }

    /// Returns the id of the node to replace.
    pub(crate) fn id(&self) -> NodeId {
        self.root
    }

    /// Returns the node to replace.
    pub(crate) fn root(&self) -> &Node {
        self.graph().node(self.root)
    }

    /// Returns the operand of the root at `index`.
    pub(crate) fn operand(&self, index: usize) -> Result<ValueId, Skip> {
        self.root().input(index).ok_or(Skip::Because("an operand is missing"))
    }

    /// Returns the only result of the root.
    pub(crate) fn result(&self) -> Result<ValueId, Skip> {
        match *self.root().outputs {
            [value] => Ok(value),
            _ => Err(Skip::Because("the node has several results")),
        }
    }

    /// Returns the type of a value.
    pub(crate) fn ty(&self, value: ValueId) -> &Type {
        self.graph().ty(value)
    }

    /// Returns the producer of `value`, if it is one of the ONNX operators `ops`.
    pub(crate) fn producer(&self, value: ValueId, ops: &[&str]) -> Option<&Node> {
        let node = self.graph().node(self.graph().producer(value)?);
        (node.op.domain.is_empty() && ops.contains(&node.op.name)).then_some(node)
    }

    /// Returns the producer of `value`, if its operator has the property.
    pub(crate) fn producer_with(
        &self,
        value: ValueId,
        property: fn(&Operator) -> bool,
    ) -> Option<&Node> {
        let node = self.graph().node(self.graph().producer(value)?);
        property(node.operator()).then_some(node)
    }

    /// Returns `true` if `value` has exactly one use.
    pub(crate) fn is_used_once(&self, value: ValueId) -> bool {
        self.graph().value(value).uses().len() == 1
    }

    /// Returns the tensor of `value`, if it is a constant. A parameter is not one.
    pub(crate) fn constant(&self, value: ValueId) -> Option<&Tensor> {
        self.graph().constant(value)
    }

    /// Returns the integers of the constant `value`.
    pub(crate) fn ints(&self, value: ValueId) -> Option<Vec<i64>> {
        self.constant(value)?.to_i64s()
    }

    /// Returns the number that all elements of the constant `value` have.
    pub(crate) fn number(&self, value: ValueId) -> Option<f64> {
        self.constant(value)?.splat()
    }

    /// Returns `true` if every use of `old` is a block result that `new` cannot replace directly.
    pub(crate) fn is_bound_to_outputs(&self, old: ValueId, new: ValueId) -> bool {
        self.graph().value(old).uses().all(|place| match place {
            Use::Operand(..) => false,
            Use::Output(block, _) => !can_be_output(self.graph(), new, block),
        })
    }

    /// Emits a node with one result.
    #[track_caller]
    pub(crate) fn op(
        &mut self,
        op: &'static str,
        inputs: &[ValueId],
        attrs: Attrs,
    ) -> Result<ValueId, Skip> {
        Ok(self.builder.op(op, inputs, attrs)?)
    }

    /// Casts `value` to `dtype`, or returns it if it has that type.
    #[track_caller]
    pub(crate) fn cast(&mut self, value: ValueId, dtype: DType) -> Result<ValueId, Skip> {
        match self.ty(value).dtype == dtype {
            true => Ok(value),
            false => self.op("Cast", &[value], onnx::attrs! { to: dtype }),
        }
    }

    /// Emits a node with `count` results. Optional operands may be omitted.
    #[track_caller]
    pub(crate) fn op_many(
        &mut self,
        op: &'static str,
        inputs: Vec<Option<ValueId>>,
        attrs: Attrs,
        count: usize,
    ) -> Result<Vec<ValueId>, Skip> {
        Ok(self.builder.emit(Op::onnx(op), inputs, attrs, count, Location::caller())?)
    }

    /// Emits a node whose results have the given types, for operators without type inference.
    #[track_caller]
    pub(crate) fn op_typed(
        &mut self,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        attrs: Attrs,
        types: Vec<Type>,
    ) -> Vec<ValueId> {
        self.builder.emit_typed((op, inputs, attrs), types, Location::caller())
    }

    /// Emits a copy of `node` with other operands. The node must have one result and no subgraphs.
    /// The copy has the origin of `node`, followed by the root's sources.
    #[track_caller]
    pub(crate) fn like(
        &mut self,
        node: &Node,
        inputs: Vec<Option<ValueId>>,
    ) -> Result<ValueId, Skip> {
        let (at, attrs) = (Location::caller(), node.attrs.clone());
        let made = self.builder.like(node.origin, |b| b.emit(node.op, inputs, attrs, 1, at))?;
        made.first().copied().ok_or("a node without results".into())
    }

    /// Emits a copy of `node` whose operand at `index` is `value`, as [`Self::like`] does.
    #[track_caller]
    pub(crate) fn like_with(
        &mut self,
        node: &Node,
        index: usize,
        value: ValueId,
    ) -> Result<ValueId, Skip> {
        let mut inputs = node.inputs.clone();
        inputs[index] = Some(value);
        self.like(node, inputs)
    }

    /// Adds a constant.
    pub(crate) fn tensor(&mut self, tensor: Tensor) -> ValueId {
        self.builder.constant(tensor)
    }

    /// Adds a constant of rank zero.
    pub(crate) fn scalar(&mut self, dtype: DType, number: f64) -> Result<ValueId, Skip> {
        let tensor = Tensor::scalar(dtype, number);
        Ok(self.tensor(tensor.ok_or("the type cannot represent the number")?))
    }

    /// Adds a constant that takes over the name of `parameter`. Only the replaced nodes may read
    /// `parameter`.
    pub(crate) fn rename(&mut self, parameter: ValueId, tensor: Tensor) -> ValueId {
        let name = self.builder.graph_mut().take_name(parameter);
        self.named(name, tensor)
    }

    /// Adds a constant that the root computed from `parameter`, named after both.
    pub(crate) fn derived(&mut self, parameter: ValueId, tensor: Tensor) -> ValueId {
        let name = format!("{}/{}", self.graph().value(parameter).name, self.root().op.name);
        self.named(name, tensor)
    }

    /// Adds a parameter.
    pub(crate) fn named(&mut self, name: String, tensor: Tensor) -> ValueId {
        self.builder.graph_mut().add_parameter(name, tensor)
    }

    /// Returns the sizes `dims` as a vector of 64-bit integers. Symbolic sizes are read from an
    /// input of the root's block, so that equal requests result in the same nodes, or else from
    /// `x`.
    pub(crate) fn sizes(&mut self, dims: &[Dim], x: ValueId) -> Result<ValueId, Skip> {
        if let Some(known) = Dim::all_known(dims) {
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
            // The longest run of these axes in one value.
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

    /// Adds a constant of 64-bit integers with the shape of `like`.
    pub(crate) fn i64s_like(&mut self, values: &[i64], like: ValueId) -> Result<ValueId, Skip> {
        let shape = self.ty(like).static_shape().ok_or("the shape is not known")?;
        let shape: Result<Vec<usize>, _> = shape.into_iter().map(usize::try_from).collect();
        let tensor = Tensor::i64s(values).reshaped(&shape.map_err(|_| "an impossible shape")?);
        Ok(self.tensor(tensor.map_err(|_| "an impossible shape")?))
    }

    /// Adds a constant vector of 64-bit integers.
    pub(crate) fn i64s(&mut self, values: &[i64]) -> ValueId {
        self.builder.i64s(values)
    }
}
