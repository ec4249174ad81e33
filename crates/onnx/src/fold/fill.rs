//! Operators that create elements from a few numbers.

use tensor::{DType, Tensor};

use crate::Attr;

use super::numbers::Numbers;
use super::{Operation, PACKED, Reason, UNKNOWN};

/// Refuses operators such as `Shape`, whose results are constant only if they follow from types
/// alone.
pub(crate) fn not_here(_: &Operation<'_>) -> Result<Tensor, Reason> {
    Err("the shape is not known")
}

pub(crate) fn constant_of_shape(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let element = match operation.node.attr("value") {
        Some(Attr::Tensor(tensor)) => tensor.bytes().ok_or(UNKNOWN)?.into_owned(),
        _ => vec![0; 4],
    };
    if !operation.dtype.bits().is_multiple_of(8) {
        return Err(PACKED);
    }
    operation.result(element.repeat(operation.shape.iter().product()))
}

pub(crate) fn range(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    if !matches!(operation.dtype, DType::I16 | DType::I32 | DType::I64) {
        return Err("the range is not one of integers");
    }
    let (start, step) = (operation.ints(0)?, operation.ints(2)?);
    let ([start], [step], [count]) = (&*start, &*step, operation.shape) else {
        return Err("the operands are not scalars");
    };
    let (start, step) = (i128::from(*start), i128::from(*step));
    let values = (0..*count).map(|i| start + step * i as i128).collect();
    Numbers::Ints(values).into_tensor(operation)
}
