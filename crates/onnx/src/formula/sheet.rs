//! Emits the nodes of a formula.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use tensor::{DType, Tensor, Type};

use crate::{Attrs, BlockId, Builder, Error, NodeId, Op, Result, ValueId};

/// The builder that all numbers of a formula share.
pub(super) struct Sheet<'f> {
    builder: RefCell<Builder<'f>>,
    at: Option<&'static Location<'static>>,
    problem: Cell<Option<Error>>,
}

/// The body of a loop.
pub(super) struct Body {
    pub(super) block: BlockId,
    /// The index of the iteration, the condition, and the carried values.
    pub(super) inputs: Vec<ValueId>,
    /// The position that nodes are emitted at outside.
    outer: (BlockId, Option<NodeId>),
}

impl<'f> Sheet<'f> {
    pub(super) fn new(
        builder: &'f mut Builder<'_>,
        at: Option<&'static Location<'static>>,
    ) -> Self {
        let Builder { name, stage, site, block, before, .. } = *builder;
        let (graph, origins, source) =
            (&mut *builder.graph, &mut *builder.origins, builder.source.clone());
        let builder = Builder { graph, origins, name, stage, site, source, block, before };
        Self { builder: RefCell::new(builder), at, problem: Cell::new(None) }
    }

    /// Returns the first error, if any.
    pub(super) fn finish(&self) -> Result<()> {
        self.problem.take().map_or(Ok(()), Err)
    }

    fn complain(&self, problem: Error) {
        let first = self.problem.take().unwrap_or(problem);
        self.problem.set(Some(first));
    }

    /// Emits a node and returns its results. If it cannot be emitted, returns operands in their
    /// place.
    pub(super) fn emit(
        &self,
        op: &'static str,
        operands: &[ValueId],
        attrs: Attrs,
        count: usize,
        at: &'static Location<'static>,
    ) -> Vec<ValueId> {
        let at = self.at.unwrap_or(at);
        let inputs = operands.iter().map(|id| Some(*id)).collect();
        let results = self.builder.borrow_mut().emit(Op::onnx(op), inputs, attrs, count, at);
        results.unwrap_or_else(|problem| {
            self.complain(problem);
            operands.iter().rev().take(count).rev().copied().collect()
        })
    }

    /// Returns a constant, or `like` if its element type does not support the constant.
    pub(super) fn constant(&self, like: ValueId, tensor: Option<Tensor>) -> ValueId {
        let mut builder = self.builder.borrow_mut();
        if let Some(tensor) = tensor {
            return builder.constant(tensor);
        }
        let dtype = builder.dtype(like);
        self.complain(Error::Graph(format!("a constant cannot be of type {dtype}")));
        like
    }

    /// Returns the element type of a value.
    pub(super) fn dtype(&self, id: ValueId) -> DType {
        self.builder.borrow().dtype(id)
    }

    /// Starts the body of a loop. Nodes are emitted into it until it is closed.
    pub(super) fn open(&self, carry: &[ValueId]) -> Body {
        let mut builder = self.builder.borrow_mut();
        let first = [Type::new(DType::I64, []), Type::new(DType::Bool, [])];
        let carry = carry.iter().map(|id| builder.ty(*id).clone());
        let types: Vec<_> = first.into_iter().chain(carry).collect();
        let block = builder.graph.add_block();
        let inputs = types.into_iter().map(|ty| builder.graph.add_input(block, ty)).collect();
        let outer = (builder.enter(block), builder.before.take());
        Body { block, inputs, outer }
    }

    /// Ends the body of a loop and sets its results.
    pub(super) fn close(&self, body: &Body, results: &[ValueId]) {
        let mut builder = self.builder.borrow_mut();
        builder.graph.set_outputs(body.block, results);
        (builder.block, builder.before) = body.outer;
    }
}
