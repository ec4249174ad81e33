//! Functions whose last bits differ between runtimes, because no standard defines their rounding.

use tensor::Tensor;

use super::numbers::Numbers;
use super::{Operation, Reason};

const LAST_BITS: Reason = "last bits are up to the runtime";

/// Applies `function` in double precision and rounds once, so that the result is as accurate as its
/// type allows.
pub(super) fn apply(operation: &Operation<'_>, function: fn(f64) -> f64) -> Result<Tensor, Reason> {
    if !operation.may_round() {
        return Err(LAST_BITS);
    }
    let x = Numbers::new(operation.input(0)?)?.floats()?;
    Numbers::Floats(x.into_iter().map(function).collect()).into_tensor(operation)
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    (1.0 + (-x).exp()).recip()
}

pub(crate) fn power(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    if !operation.may_round() {
        return Err(LAST_BITS);
    }
    let [x, y] = [0, 1].map(|i| Numbers::broadcast(operation, i)?.floats());
    let values = x?.iter().zip(y?).map(|(x, y)| x.powf(y)).collect();
    Numbers::Floats(values).into_tensor(operation)
}
