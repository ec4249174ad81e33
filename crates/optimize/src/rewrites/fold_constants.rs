//! Computes what depends on constants only, where the result is small: as small as the constants that it
//! takes the place of, or a table that makes the file a little larger.
//! Parameters (constants with a name) are left alone: people look for them by name.

use std::sync::Arc;

use onnx::fold::{self, Exactness, Operation};
use onnx::operators::{Axes, Operator};
use onnx::{Attrs, Graph, Node, Producer, ValueId};
use rustc_hash::FxHashMap;
use tensor::{DType, Dim, Tensor, Type};

use crate::{Match, Rewrite, Roots, Skip};

/// What is the same bit for bit, whoever computes it.
pub(crate) static REWRITE: Rewrite = Rewrite {
    name: "fold_constants",
    roots: Roots::With(Operator::folds),
    try_at: |m| try_at(m, Exactness::EachBit),
};

/// Sums and functions as well, whose last bits are up to who computes them.
pub(crate) static ROUNDED: Rewrite = Rewrite {
    name: "fold_rounded_constants",
    roots: Roots::With(Operator::folds),
    try_at: |m| try_at(m, Exactness::Rounded),
};

/// The bytes that a result may always take.
const LIMIT: usize = 4096;

/// The bytes that a result may take at all: it is computed slowly, in wide numbers.
const COMPUTED: usize = 1 << 22;

/// The bytes by which all results together may make the file larger. Tables of angles for two thousand
/// positions fit.
const GROWTH: usize = 1 << 20;

/// The elements that a mask may have: one for a thousand tokens is computed once, here.
const MASK_LIMIT: usize = 1 << 20;

fn try_at(m: &mut Match<'_>, exactness: Exactness) -> Result<Vec<ValueId>, Skip> {
    if let [result] = *m.root().outputs {
        let known = empty(m.ty(result)).or_else(|| known_content(m.graph(), result));
        if let Some(tensor) = known {
            return Ok(vec![m.tensor(tensor)]);
        }
    }
    check_constants(m)?;
    let tensors = (0..m.root().outputs.len()).map(|index| evaluate(m, index, exactness));
    let tensors: Vec<(Tensor, usize)> = tensors.collect::<Result<_, _>>()?;
    let mut values = Vec::new();
    for (tensor, growth) in tensors {
        let value = m.tensor(tensor);
        if growth > 0 {
            m.memory().folded.grown.push((value, growth));
        }
        values.push(value);
    }
    Ok(values)
}

/// What has no elements is a constant, whatever computes it.
fn empty(ty: &Type) -> Option<Tensor> {
    if !ty.shape.contains(&Dim::Known(0)) {
        return None;
    }
    let shape = static_shape(ty)?;
    Tensor::new(ty.dtype, &shape, Arc::new(Vec::new())).ok()
}

fn static_shape(ty: &Type) -> Option<Vec<usize>> {
    ty.static_shape()?.into_iter().map(|size| usize::try_from(size).ok()).collect()
}

/// An integer vector or scalar whose elements all follow from shapes.
fn known_content(graph: &Graph, value: ValueId) -> Option<Tensor> {
    let ty = graph.ty(value);
    let content = graph.value(value).content.as_deref()?;
    let known: Vec<i64> = content.iter().map(Dim::as_known).collect::<Option<_>>()?;
    if ty.dtype != DType::I64 {
        return None;
    }
    match ty.rank() {
        0 => Tensor::i64s(&known).reshaped(&[]).ok(),
        1 => Some(Tensor::i64s(&known)),
        _ => None,
    }
}

/// What was computed so far. The layers of a model compute the same masks.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    known: FxHashMap<(&'static str, Vec<usize>), Vec<Fold>>,
    /// Results by which the file got larger, and by how many bytes.
    grown: Vec<(ValueId, usize)>,
}

/// An operator on constants, and its result.
#[derive(Debug)]
struct Fold {
    attrs: Attrs,
    inputs: Vec<Option<Tensor>>,
    /// Which of the operator's results it is.
    index: usize,
    result: Tensor,
}

impl Folded {
    /// What computes the same is found by the addresses of the operands, which results that were
    /// found here have in common.
    fn key(operation: &Operation<'_>) -> (&'static str, Vec<usize>) {
        let address = |input: &Option<&Tensor>| input.map_or(0, Tensor::address);
        (operation.node.op.name, operation.inputs.iter().map(address).collect())
    }

    fn get(&self, operation: &Operation<'_>) -> Option<Tensor> {
        let is_same = |fold: &&Fold| {
            fold.attrs == operation.node.attrs
                && fold.inputs.iter().map(Option::as_ref).eq(operation.inputs.iter().copied())
                && fold.index == operation.result
                && fold.result.dtype() == operation.dtype
                && fold.result.shape() == operation.shape
        };
        self.known.get(&Self::key(operation))?.iter().find(is_same).map(|fold| fold.result.clone())
    }
}

/// The result of the root at `index`, and the bytes by which it makes the file larger.
fn evaluate(
    m: &mut Match<'_>,
    index: usize,
    exactness: Exactness,
) -> Result<(Tensor, usize), Skip> {
    let inputs = constants(m)?;
    let node = m.root();
    let ty = m.ty(*node.outputs.get(index).ok_or("the node has no result")?);
    let shape = folded_shape(ty)?;
    let limit = match makes_mask(m, node, ty.dtype) {
        true => ty.dtype.byte_len(MASK_LIMIT),
        false => LIMIT,
    };
    let operands: Vec<_> = inputs.iter().map(Option::as_ref).collect();
    let operation = Operation {
        node,
        inputs: &operands,
        dtype: ty.dtype,
        shape: &shape,
        result: index,
        exactness,
    };
    if let Some(known) = m.known().folded.get(&operation) {
        return Ok((known, 0));
    }
    let is_small = is_within(ty.dtype, &shape, limit);
    // What only gets another layout or a smaller type is not computed now, whatever the number of elements.
    let view = fold::view(&operation)?.filter(|view| !is_small || !view.is_known());
    let (result, growth) = match view.and_then(|view| stored_once(m, view)) {
        Some(view) => (view, 0),
        None if is_small => (fold::evaluate(&operation)?, 0),
        None => {
            let growth = growth(m, ty.dtype, &shape).ok_or("the result is large")?;
            let result = fold::evaluate(&operation)?;
            if growth > 0 && result.splat().is_some() {
                return Err("what repeats one number stays short".into());
            }
            (result, growth)
        }
    };
    let key = Folded::key(&operation);
    let attrs = node.attrs.clone();
    let fold = Fold { attrs, inputs, index, result: result.clone() };
    m.memory().folded.known.entry(key).or_default().push(fold);
    Ok((result, growth))
}

/// The bytes by which the file gets larger if the root's result is stored; `None` if that is too much. What
/// only repeats its operand stays short.
fn growth(m: &Match<'_>, dtype: DType, shape: &[usize]) -> Option<usize> {
    let node = m.root();
    if !is_within(dtype, shape, COMPUTED) || repeats(node) {
        return None;
    }
    let operands = node.inputs.iter().flatten().filter(|value| m.is_used_once(**value));
    let freed = operands.filter_map(|value| m.constant(*value)).map(Tensor::byte_len);
    let growth = dtype.byte_len(shape.iter().product()).saturating_sub(freed.sum());
    let is_read = |value: ValueId| m.graph().value(value).uses().next().is_some();
    let grown = m.known().folded.grown.iter().filter(|(value, _)| is_read(*value));
    let grown: usize = grown.map(|(_, bytes)| bytes).sum();
    (grown + growth <= GROWTH).then_some(growth)
}

/// Whether a node only repeats what its operand holds.
fn repeats(node: &Node) -> bool {
    node.is("ConstantOfShape") || node.is("Expand")
}

/// A view of the first operand, if it is stored instead of that and takes no more bytes.
fn stored_once(m: &Match<'_>, view: Tensor) -> Option<Tensor> {
    let source = m.root().input(0)?;
    let is_same = m.graph().constant(source)?.place() == view.place();
    let is_alone = is_same || m.is_used_once(source);
    (is_alone && view.byte_len() <= view.source_len()).then_some(view)
}

/// Whether all operands of the root are constants without names, or repeat one.
fn check_constants(m: &Match<'_>) -> Result<(), Skip> {
    for value in m.root().inputs.iter().flatten() {
        match repeating(m.graph(), *value) {
            Some(node) => node.inputs.iter().flatten().try_for_each(|v| stored(m, *v).map(drop))?,
            None => drop(stored(m, *value)?),
        }
    }
    Ok(())
}

/// The operands of the root, all of which are constants or repeat one, which is written out.
fn constants(m: &Match<'_>) -> Result<Vec<Option<Tensor>>, Skip> {
    let operand = |input: &Option<ValueId>| input.map(|value| constant(m, value)).transpose();
    m.root().inputs.iter().map(operand).collect()
}

/// The node that makes `value` by repeating something.
fn repeating(graph: &Graph, value: ValueId) -> Option<&Node> {
    graph.producer(value).map(|id| graph.node(id)).filter(|node| repeats(node))
}

/// The tensor of a constant without a name.
fn stored<'m>(m: &'m Match<'_>, value: ValueId) -> Result<&'m Tensor, Skip> {
    match m.graph().value(value).producer() {
        Producer::Parameter(_) => Err("a parameter keeps its name".into()),
        Producer::Constant(tensor) => Ok(tensor),
        _ => Err("an operand is not a constant".into()),
    }
}

fn constant(m: &Match<'_>, value: ValueId) -> Result<Tensor, Skip> {
    let Some(node) = repeating(m.graph(), value) else { return stored(m, value).cloned() };
    let shape = folded_shape(m.ty(value))?;
    if !is_within(m.ty(value).dtype, &shape, COMPUTED) {
        return Err("an operand is large".into());
    }
    let inputs = node.inputs.iter().flatten().map(|input| stored(m, *input).map(Some));
    let inputs: Vec<Option<&Tensor>> = inputs.collect::<Result<_, _>>()?;
    let dtype = m.ty(value).dtype;
    let exactness = Exactness::EachBit;
    let operation = Operation { node, inputs: &inputs, dtype, shape: &shape, result: 0, exactness };
    Ok(fold::evaluate(&operation)?)
}

/// The shape of a result, if it is known.
pub(super) fn folded_shape(ty: &Type) -> Result<Vec<usize>, Skip> {
    static_shape(ty).ok_or(Skip::Because("the result's shape is not known"))
}

/// Whether a tensor takes `limit` bytes at most.
pub(super) fn is_within(dtype: DType, shape: &[usize], limit: usize) -> bool {
    let count = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    count.is_some_and(|n| n.checked_mul(16).is_some() && dtype.byte_len(n) <= limit)
}

/// Whether a node says of each element which side of something it is on, by truth values or by one of
/// two numbers. What repeats one element is not a mask.
fn makes_mask(m: &Match<'_>, node: &Node, dtype: DType) -> bool {
    let is_number =
        |index| node.input(index).is_some_and(|value: ValueId| m.ty(value).shape.is_empty());
    let chooses_number = node.is("Where") && is_number(1) && is_number(2);
    dtype == DType::Bool && node.operator().axes == Axes::Elementwise || chooses_number
}

#[cfg(test)]
mod operator_tests;

#[cfg(test)]
mod tests;
