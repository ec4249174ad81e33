//! Methods of rules that emit nodes, or query facts about values.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use onnx::facts::Facts;
use onnx::{Assumption, Attrs, Builder, Op, ValueId, attrs, fold};
use provenance::Site;
use tensor::{DType, Dim, Tensor, Type};

use super::Context;
use crate::rules::TABLE_FILE;
use crate::{Result, RuleError};

/// The types of the results of a node that a user's rule emits.
#[derive(Clone, Debug)]
pub enum Foreign {
    /// This many results, whose types are inferred.
    Inferred(usize),
    /// Results of these types.
    Typed(Vec<Type>),
}

/// Rules emit nodes and ask for types as everything else does.
impl<'a> Deref for Context<'a> {
    type Target = Builder<'a>;

    fn deref(&self) -> &Builder<'a> {
        &self.builder
    }
}

impl DerefMut for Context<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.builder
    }
}

impl Context<'_> {
    /// Returns `true` if the user guarantees the assumption `one`.
    pub(crate) fn assumes(&self, one: Assumption) -> bool {
        self.builder.graph().assumptions.contains(one)
    }

    /// Returns what is known about values before the model runs.
    pub(crate) fn facts(&self) -> Facts<'_> {
        self.builder.graph().facts()
    }

    /// Returns the operand that a value broadcasts, or the value itself.
    fn repeated(&self, value: ValueId) -> ValueId {
        let graph = self.builder.graph();
        let expand = graph.producer(value).map(|id| graph.node(id));
        let expand = expand.filter(|node| node.is("Expand"));
        expand.and_then(|expand| expand.input(0)).unwrap_or(value)
    }

    /// Returns `true` if all elements of a value are known to equal `number`.
    pub(crate) fn repeats(&self, value: ValueId, number: f64) -> bool {
        let narrow = self.repeated(value);
        // The user may replace the elements of a parameter.
        self.builder.graph().parameter(narrow).is_none()
            && self.facts().constant(narrow).and_then(|known| known.splat()) == Some(number)
    }

    /// Returns the number that all elements of a value equal, as a scalar.
    pub(crate) fn repeated_number(&mut self, value: ValueId) -> Result<Option<ValueId>> {
        let narrow = self.repeated(value);
        if self.shape(narrow).iter().all(|size| *size == Dim::Known(1)) {
            return Ok(Some(self.reshape(narrow, &[])?));
        }
        let is_parameter = self.builder.graph().parameter(narrow).is_some();
        let number = self.facts().constant(narrow).filter(|_| !is_parameter).and_then(|known| {
            let (bytes, width) = (known.splat().and(known.bytes())?, known.dtype().bits() / 8);
            let first = bytes.get(..width as usize)?.to_vec();
            Tensor::new(known.dtype(), &[], Arc::new(first)).ok()
        });
        Ok(number.map(|number| self.constant(number)))
    }

    /// Returns the conditions behind `which`, if it is the index of the first one that holds, or
    /// zero if none does. The first result is the axis that the conditions are concatenated along.
    pub(crate) fn alternatives(&self, which: ValueId) -> Option<(i64, Vec<ValueId>)> {
        let graph = self.builder.graph();
        let node = |value| graph.producer(value).map(|id| graph.node(id));
        let uncast =
            |value| node(value).filter(|n| n.is("Cast")).map_or(Some(value), |n| n.input(0));
        let first = node(uncast(which)?).filter(|n| n.is("ArgMax"))?;
        let truths = uncast(first.input(0)?)?;
        let all = node(truths).filter(|n| n.is("Concat"))?;
        let axis = fold::axis(all.int("axis", 0), self.rank(truths)).ok()?;
        let along = fold::axis(first.int("axis", 0), self.rank(truths)).ok()?;
        let is_first = first.int("keepdims", 1) == 0 && first.int("select_last_index", 0) == 0;
        let parts: Vec<ValueId> = all.inputs.iter().copied().collect::<Option<_>>()?;
        let is_single = |part: &ValueId| self.shape(*part)[axis] == Dim::Known(1);
        let are_single = self.dtype(truths) == DType::Bool && parts.iter().all(is_single);
        (is_first && axis == along && are_single).then_some((axis as i64, parts))
    }

    /// Returns the boolean that a value is, or is cast from.
    pub(crate) fn truth_behind(&self, value: ValueId) -> Option<ValueId> {
        if self.dtype(value) == DType::Bool {
            return Some(value);
        }
        let graph = self.builder.graph();
        let cast = graph.node(graph.producer(value)?);
        let from = cast.input(0).filter(|_| cast.is("Cast"))?;
        (self.dtype(from) == DType::Bool).then_some(from)
    }

    /// Emits a node for a user's rule. Its results have the given types where type inference does
    /// not exist. Fails if the node is invalid.
    pub fn emit_foreign(
        &mut self,
        node: (Op, Vec<Option<ValueId>>, Attrs),
        results: Foreign,
        at: Site,
    ) -> onnx::Result<Vec<ValueId>> {
        let emitted = self.at(at, |cx| match results {
            Foreign::Inferred(count) => {
                let (op, inputs, attrs) = node;
                cx.builder.emit(op, inputs, attrs, count, at)
            }
            Foreign::Typed(types) => Ok(cx.builder.emit_typed(node, types, at)),
        })?;
        let node = emitted.first().and_then(|value| self.builder.graph().producer(*value));
        node.map_or(Ok(()), |node| onnx::check_node(self.builder.graph(), node))?;
        Ok(emitted)
    }

    /// Returns the line of the rule `name` that emitted the producer of a value.
    pub fn line_in(&self, name: &str, value: ValueId) -> Option<u32> {
        let graph = self.builder.graph();
        let node = graph.node(graph.producer(value)?);
        let emitter = self.builder.origins().get(node.origin).emitter;
        (emitter.name == name).then(|| emitter.at.line())
    }

    /// Emits the operator of a one-to-one row of the table.
    pub(crate) fn row_op(&mut self, op: &'static str, x: &[ValueId]) -> Result<Vec<ValueId>> {
        let inputs = x.iter().map(|v| Some(*v)).collect();
        Ok(self.builder.emit(Op::onnx(op), inputs, Attrs::new(), 1, Site::Row(TABLE_FILE))?)
    }

    /// Adds a scalar constant of the element type of `like`.
    pub(crate) fn scalar_like(&mut self, like: ValueId, value: f64) -> Result<ValueId> {
        let dtype = self.dtype(like);
        Ok(self.scalar(dtype, value)?)
    }

    /// Reshapes `value` to another shape of equally many elements.
    #[track_caller]
    pub fn reshape(&mut self, value: ValueId, shape: &[Dim]) -> Result<ValueId> {
        if self.shape(value) == shape {
            return Ok(value);
        }
        let shape = self.dims(shape)?;
        // A zero in the shape means zero, not "copy from the input".
        Ok(self.op("Reshape", &[value, shape], attrs! { allowzero: 1 })?)
    }

    /// Broadcasts `value` to `shape`.
    #[track_caller]
    pub fn expand(&mut self, value: ValueId, shape: &[Dim]) -> Result<ValueId> {
        if self.shape(value) == shape {
            return Ok(value);
        }
        // Leading axes of size one repeat nothing.
        let more = shape.len().saturating_sub(self.rank(value));
        if shape[more..] == *self.shape(value) && shape[..more].iter().all(|d| *d == Dim::Known(1))
        {
            let axes: Vec<i64> = (0..more as i64).collect();
            return Ok(self.unsqueeze(value, &axes)?);
        }
        // A size that stays the same need not be computed, because one broadcasts to any size.
        let mut target = shape.to_vec();
        for (to, from) in target[more..].iter_mut().zip(self.shape(value)) {
            if to == from && from.as_known().is_none() {
                *to = Dim::Known(1);
            }
        }
        let target = self.dims(&target)?;
        Ok(self.op("Expand", &[value, target], Attrs::new())?)
    }

    /// Returns a tensor of `shape` filled with `value`.
    #[track_caller]
    pub fn full(&mut self, dtype: DType, value: f64, shape: &[Dim]) -> Result<ValueId> {
        let tensor = Tensor::scalar(dtype, value).ok_or_else(|| {
            RuleError::Internal(format!("{value} is not a constant of type {dtype}"))
        })?;
        let scalar = self.constant(tensor);
        self.expand(scalar, shape)
    }
}
