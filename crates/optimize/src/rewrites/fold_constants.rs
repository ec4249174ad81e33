//! Folds nodes whose operands are constants, if the result is small: no larger than the constants
//! that it replaces, or a table that barely increases the size of the file. Parameters (named
//! constants) are unchanged, because users look for them by name.

use std::sync::Arc;

use onnx::fold::{self, Exactness, Operation};
use onnx::operators::{Axes, Operator};
use onnx::{Attrs, Graph, Node, Producer, ValueId};
use rustc_hash::FxHashMap;
use tensor::{DType, Dim, Tensor, Type};

use crate::{Match, Rewrite, Skip};

/// Folds results that are identical bit for bit in every implementation.
pub(crate) static REWRITE: Rewrite =
    Rewrite::with("fold_constants", Operator::folds, |m| try_at(m, Exactness::EachBit));

/// Also folds sums and functions whose last bits depend on the implementation.
pub(crate) static ROUNDED: Rewrite =
    Rewrite::with("fold_rounded_constants", Operator::folds, |m| try_at(m, Exactness::Rounded));

/// The size of a result that is always acceptable, in bytes.
const LIMIT: usize = 4096;

/// The maximum size of a result, in bytes. The evaluation is slow and uses wide numbers.
const COMPUTED: usize = 1 << 22;

/// The maximum growth of the file over all results, in bytes. It has room for tables of angles for
/// two thousand positions.
const GROWTH: usize = 1 << 20;

/// The maximum number of elements of a mask. A mask for a thousand tokens is computed once at
/// export.
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
            m.memory.folded.grown.push((value, growth));
        }
        values.push(value);
    }
    Ok(values)
}

/// Returns the constant for a result without elements, which needs no operands.
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

/// Returns an integer vector or scalar whose elements all follow from shapes.
fn known_content(graph: &Graph, value: ValueId) -> Option<Tensor> {
    let ty = graph.ty(value);
    let known = Dim::all_known(graph.value(value).content.as_deref()?)?;
    let shape = static_shape(ty).filter(|_| ty.dtype == DType::I64)?;
    Tensor::i64s(&known).reshaped(&shape).ok()
}

/// The results so far. The layers of a model compute the same masks.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    known: FxHashMap<(&'static str, Vec<usize>), Vec<Fold>>,
    /// The results that increased the size of the file, and by how many bytes.
    grown: Vec<(ValueId, usize)>,
}

/// An operator applied to constants, and its result.
#[derive(Debug)]
struct Fold {
    attrs: Attrs,
    inputs: Vec<Option<Tensor>>,
    /// The index of the result among the operator's results.
    index: usize,
    result: Tensor,
}

impl Folded {
    /// Returns a key that consists of the operator and the addresses of the operands. Results of
    /// earlier folds share their addresses.
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

/// Evaluates the result of the root at `index`. Also returns its growth of the file in bytes.
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
    if let Some(known) = m.memory.folded.get(&operation) {
        return Ok((known, 0));
    }
    let is_small = is_within(ty.dtype, &shape, limit);
    // Changes of layout and casts to a smaller type are views, which are not computed now and may
    // have any number of elements.
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
    m.memory.folded.known.entry(key).or_default().push(fold);
    Ok((result, growth))
}

/// Returns the growth of the file in bytes if the root's result is stored, or `None` if it is too
/// large. Nodes that only repeat their operand are not folded.
fn growth(m: &Match<'_>, dtype: DType, shape: &[usize]) -> Option<usize> {
    let node = m.root();
    if !is_within(dtype, shape, COMPUTED) || repeats(node) {
        return None;
    }
    let operands = node.inputs.iter().flatten().filter(|value| m.is_used_once(**value));
    let freed = operands.filter_map(|value| m.constant(*value)).map(Tensor::byte_len);
    let growth = dtype.byte_len(shape.iter().product()).saturating_sub(freed.sum());
    let is_read = |value: ValueId| m.graph().value(value).uses().next().is_some();
    let grown = m.memory.folded.grown.iter().filter(|(value, _)| is_read(*value));
    let grown: usize = grown.map(|(_, bytes)| bytes).sum();
    (grown + growth <= GROWTH).then_some(growth)
}

/// Returns `true` if a node only repeats the elements of its operand.
fn repeats(node: &Node) -> bool {
    node.is("ConstantOfShape") || node.is("Expand")
}

/// Returns a view of the first operand, if the view replaces it and takes no more bytes.
fn stored_once(m: &Match<'_>, view: Tensor) -> Option<Tensor> {
    let source = m.root().input(0)?;
    let is_same = m.graph().constant(source)?.place() == view.place();
    let is_alone = is_same || m.is_used_once(source);
    (is_alone && view.byte_len() <= view.source_len()).then_some(view)
}

/// Checks that all operands of the root are unnamed constants, or repeat one.
fn check_constants(m: &Match<'_>) -> Result<(), Skip> {
    for value in m.root().inputs.iter().flatten() {
        match repeating(m.graph(), *value) {
            Some(node) => node.inputs.iter().flatten().try_for_each(|v| stored(m, *v).map(drop))?,
            None => drop(stored(m, *value)?),
        }
    }
    Ok(())
}

/// Returns the operands of the root, all of which are constants or repeat one. Repeated constants
/// are materialised.
fn constants(m: &Match<'_>) -> Result<Vec<Option<Tensor>>, Skip> {
    let operand = |input: &Option<ValueId>| input.map(|value| constant(m, value)).transpose();
    m.root().inputs.iter().map(operand).collect()
}

/// Returns the producer of `value` if it only repeats elements.
fn repeating(graph: &Graph, value: ValueId) -> Option<&Node> {
    graph.producer(value).map(|id| graph.node(id)).filter(|node| repeats(node))
}

/// Returns the tensor of an unnamed constant.
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
    Skip::when(!is_within(m.ty(value).dtype, &shape, COMPUTED), "an operand is large")?;
    let inputs = node.inputs.iter().flatten().map(|input| stored(m, *input).map(Some));
    let inputs: Vec<Option<&Tensor>> = inputs.collect::<Result<_, _>>()?;
    let dtype = m.ty(value).dtype;
    let exactness = Exactness::EachBit;
    let operation = Operation { node, inputs: &inputs, dtype, shape: &shape, result: 0, exactness };
    Ok(fold::evaluate(&operation)?)
}

/// Returns the shape of a result, if it is known.
pub(super) fn folded_shape(ty: &Type) -> Result<Vec<usize>, Skip> {
    static_shape(ty).ok_or(Skip::Because("the result's shape is not known"))
}

/// Returns `true` if a tensor takes at most `limit` bytes.
pub(super) fn is_within(dtype: DType, shape: &[usize], limit: usize) -> bool {
    let count = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    count.is_some_and(|n| n.checked_mul(16).is_some() && dtype.byte_len(n) <= limit)
}

/// Returns `true` if a node computes a mask: Boolean values, or one of two numbers per element.
/// Nodes that repeat one element do not count.
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
