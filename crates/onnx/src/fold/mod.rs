//! Evaluates operators on constants. Results that may differ between runtimes are not evaluated:
//! overflow, NaN and, unless the last bits may differ, sums of floats and transcendental functions.

pub(crate) mod cast;
pub(crate) mod elementwise;
pub(crate) mod fill;
pub(crate) mod functions;
pub(crate) mod gather;
pub(crate) mod layout;
mod numbers;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod scatter;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tensor::{DType, Tensor};

use crate::Node;
use crate::operators::Fold;

/// The reason that an operator is not evaluated.
pub type Reason = &'static str;

/// The reason for a tensor whose elements are fetched later.
const UNKNOWN: Reason = "an operand is not known yet";
const NOT_COMPUTED: Reason = "the type is not computed with";
const MISSHAPEN: Reason = "an operand has another size than was inferred";
const MISMATCHED: Reason = "the operands have different types";
const INTEGER_FAILS: Reason = "an integer operation fails";
const INEXACT: Reason = "the operation is not exact";
const OUT_OF_RANGE: Reason = "an index is out of range";
/// The reason for sums and products that depend on the order of the operations.
const ORDER: Reason = "the order of the operations is up to the runtime";
/// The reason for elements that share bytes and cannot be moved individually.
const PACKED: Reason = "the elements are packed";

/// An operator on constants. The type of its result is known.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The operator, with its attributes.
    pub node: &'a Node,
    /// The operands.
    pub inputs: &'a [Option<&'a Tensor>],
    /// The element type of the result.
    pub dtype: DType,
    /// The shape of the result.
    pub shape: &'a [usize],
    /// The index of the result among the results of the operator.
    pub result: usize,
    /// The required agreement with runtimes.
    pub exactness: Exactness,
}

/// The agreement of an evaluation with runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// Every bit is the same.
    EachBit,
    /// The last bits may differ, as they do between runtimes. The result is computed in wide
    /// numbers and rounded once.
    Rounded,
}

impl<'a> Operation<'a> {
    /// Returns the operand at `index`, if it is given.
    fn optional(&self, index: usize) -> Option<&'a Tensor> {
        self.inputs.get(index).copied().flatten()
    }

    fn input(&self, index: usize) -> Result<&'a Tensor, Reason> {
        self.optional(index).ok_or("an operand is left out")
    }

    fn ints(&self, index: usize) -> Result<Vec<i64>, Reason> {
        self.input(index)?.to_i64s().ok_or("an operand is not integer")
    }

    /// Returns the axes that the operand at `index` lists, counted from the front.
    fn axes(&self, index: usize, rank: usize) -> Result<Option<Vec<usize>>, Reason> {
        let Some(_) = self.optional(index) else { return Ok(None) };
        self.ints(index)?
            .into_iter()
            .map(|along| axis(along, rank))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn may_round(&self) -> bool {
        self.exactness == Exactness::Rounded
    }

    /// Returns the result, which consists of these bytes.
    fn result(&self, bytes: Vec<u8>) -> Result<Tensor, Reason> {
        let tensor = Tensor::new(self.dtype, self.shape, Arc::new(bytes));
        tensor.map_err(|_| "the result has another size than was inferred")
    }

    /// Returns the attribute `axis`, counted from the front.
    fn axis(&self, default: i64, rank: usize) -> Result<usize, Reason> {
        axis(self.node.int("axis", default), rank)
    }
}

/// Returns an axis counted from the front.
pub fn axis(axis: i64, rank: usize) -> Result<usize, Reason> {
    let from_front = if axis < 0 { axis + i64::try_from(rank).unwrap_or(0) } else { axis };
    let axis = usize::try_from(from_front).ok().filter(|axis| *axis < rank);
    axis.ok_or("an axis is out of range")
}

/// Returns the result as a view of the first operand, if the operator only reorders or reshapes its
/// elements or casts them to other floats. Elements are read in place, so that the result need not
/// be a copy.
pub fn view(operation: &Operation<'_>) -> Result<Option<Tensor>, Reason> {
    layout::view(operation)
}

/// Returns the axis of the operand for each axis of the result of a `Transpose` of `rank` axes.
pub fn permutation(node: &Node, rank: usize) -> Result<Vec<usize>, Reason> {
    match node.ints("perm") {
        None => Ok((0..rank).rev().collect()),
        Some(perm) => perm.iter().map(|p| axis(*p, rank)).collect(),
    }
}

/// Evaluates an operator.
pub fn evaluate(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    match operation.node.operator().fold {
        Fold::Whole(evaluate) => evaluate(operation),
        Fold::Function(function) => functions::apply(operation, function),
        Fold::Never => Err("the operator is not evaluated"),
    }
}
