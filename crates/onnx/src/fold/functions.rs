//! Functions whose last bits differ between runtimes, because no standard defines their rounding.

use tensor::Tensor;

use super::elementwise::broadcast;
use super::numbers::Numbers;
use super::{Operation, Reason};

const LAST_BITS: Reason = "last bits are up to the runtime";

/// Applies `function` in double precision and rounds once, so that the result is as accurate as its
/// type allows.
pub(super) fn apply(operation: &Operation<'_>, function: fn(f64) -> f64) -> Result<Tensor, Reason> {
    if !operation.may_round() {
        return Err(LAST_BITS);
    }
    let Numbers::Floats(x) = Numbers::new(operation.input(0)?)? else {
        return Err("the type is not computed with");
    };
    let values = x.into_iter().map(function).collect();
    Numbers::Floats(values).into_tensor(operation.dtype, operation.shape)
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    (1.0 + (-x).exp()).recip()
}

pub(crate) fn power(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    if !operation.may_round() {
        return Err(LAST_BITS);
    }
    let numbers = |i| broadcast(operation, i).and_then(|tensor| Numbers::new(&tensor));
    let (Numbers::Floats(x), Numbers::Floats(y)) = (numbers(0)?, numbers(1)?) else {
        return Err("the type is not computed with");
    };
    let values = x.iter().zip(&y).map(|(x, y)| x.powf(*y)).collect();
    Numbers::Floats(values).into_tensor(operation.dtype, operation.shape)
}
