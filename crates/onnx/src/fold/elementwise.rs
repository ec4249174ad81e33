//! Elementwise operators, with broadcasting.

use std::cmp::Ordering;
use std::sync::Arc;

use tensor::{DType, DTypeKind, Tensor};

use super::cast::wrapped;
use super::layout::{broadcast_strides, pick, positions};
use super::numbers::Numbers;
use super::{
    INEXACT, INTEGER_FAILS, MISMATCHED, NOT_COMPUTED, ORDER, Operation, Reason, UNKNOWN, reduce,
};

/// Returns the operand at `index`, broadcast to the shape of the result.
pub(super) fn broadcast(operation: &Operation<'_>, index: usize) -> Result<Tensor, Reason> {
    let source = operation.input(index)?;
    if source.shape() == operation.shape {
        return Ok(source.clone());
    }
    let strides = broadcast_strides(source.shape(), operation.shape)?;
    let bytes = pick(source, positions(operation.shape, &strides, 0))?;
    let tensor = Tensor::new(source.dtype(), operation.shape, Arc::new(bytes));
    tensor.map_err(|_| "an operand does not broadcast")
}

macro_rules! operators {
    ($evaluate:ident: $($name:ident => $($function:expr),+;)*) => {
        $(pub(crate) fn $name(operation: &Operation<'_>) -> Result<Tensor, Reason> {
            $evaluate(operation, $($function),+)
        })*
    };
}

// On integers, then on floats. `None` if the result depends on the runtime or the type has none.
operators! { unary:
    abs => |v| Some(v.abs()), |v| Some(v.abs());
    // The fold wraps unsigned integers around.
    bitwise_not => |v| Some(!v), |_| None;
    ceil => |_| None, |v| Some(v.ceil());
    floor => |_| None, |v| Some(v.floor());
    neg => |v| Some(-v), |v| Some(-v);
    not => |v| Some(1 - v), |_| None;
    // `Reciprocal` and `Sqrt` are correctly rounded, like the four arithmetic operations.
    reciprocal => |_| None, |v| Some(v.recip());
    round => |_| None, |v| Some(v.round_ties_even());
    // Not for zeros, because the sign of the result is up to the runtime.
    sign => |v| Some(v.signum()), |v| (v != 0.0).then(|| v.signum());
    sqrt => |_| None, |v| Some(v.sqrt());
}

operators! { binary:
    add => i128::checked_add, |a, b| Some(a + b);
    and => |a, b| Some(a & b), |_, _| None;
    div => i128::checked_div, |a, b| Some(a / b);
    max => |a, b| Some(a.max(b)), larger;
    min => |a, b| Some(a.min(b)), smaller;
    mul => i128::checked_mul, |a, b| Some(a * b);
    or => |a, b| Some(a | b), |_, _| None;
    sub => i128::checked_sub, |a, b| Some(a - b);
    xor => |a, b| Some(a ^ b), |_, _| None;
}

operators! { compare:
    at_least => Ordering::is_ge;
    at_most => Ordering::is_le;
    equal => Ordering::is_eq;
    greater => Ordering::is_gt;
    less => Ordering::is_lt;
}

/// Applies a function to each element.
fn unary(
    operation: &Operation<'_>,
    ints: fn(i128) -> Option<i128>,
    floats: fn(f64) -> Option<f64>,
) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let result = match Numbers::new(source)? {
        Numbers::Ints(v) => {
            let values = v.into_iter().map(|v| Some(in_range(ints(v)?, operation.dtype)));
            Numbers::Ints(values.collect::<Option<_>>().ok_or(NOT_COMPUTED)?)
        }
        Numbers::Floats(v) => {
            Numbers::Floats(v.into_iter().map(floats).collect::<Option<_>>().ok_or(NOT_COMPUTED)?)
        }
    };
    result.into_tensor(operation)
}

/// Applies a function to each pair of elements.
fn binary(
    operation: &Operation<'_>,
    ints: impl Fn(i128, i128) -> Option<i128>,
    floats: impl Fn(f64, f64) -> Option<f64>,
) -> Result<Tensor, Reason> {
    if operation.inputs.len() != 2 {
        return Err(NOT_COMPUTED);
    }
    let numbers = |i| Numbers::broadcast(operation, i);
    let result = match (numbers(0)?, numbers(1)?) {
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            let value = |(a, b)| Some(in_range(ints(a, b)?, operation.dtype));
            let values = a.into_iter().zip(b).map(value).collect::<Option<_>>();
            Numbers::Ints(values.ok_or(INTEGER_FAILS)?)
        }
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            let values = a.into_iter().zip(b).map(|(a, b)| floats(a, b)).collect::<Option<_>>();
            Numbers::Floats(values.ok_or(INEXACT)?)
        }
        _ => return Err(MISMATCHED),
    };
    result.into_tensor(operation)
}

/// Wraps an unsigned integer around, as every runtime does. Signed ones that overflow are refused
/// later.
fn in_range(value: i128, dtype: DType) -> i128 {
    if dtype.kind() == DTypeKind::Unsigned { wrapped(value, dtype) } else { value }
}

/// Evaluates `Sum` of several operands, rounded once.
pub(crate) fn sum(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    if !operation.may_round() {
        return Err(ORDER);
    }
    let limit = reduce::largest(operation.dtype)?;
    let operands = 0..operation.inputs.len();
    let operands = operands.map(|index| Numbers::broadcast(operation, index)?.floats());
    let operands: Vec<Vec<f64>> = operands.collect::<Result<_, _>>()?;
    let sum = |place: usize| {
        let terms: Option<Vec<f64>> = operands.iter().map(|v| v.get(place).copied()).collect();
        reduce::sum(&terms.unwrap_or_default(), limit)
    };
    let values = (0..operation.shape.iter().product()).map(sum).collect::<Result<_, _>>()?;
    Numbers::Floats(values).into_tensor(operation)
}

pub(crate) fn bit_shift(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let is_left = operation.node.string("direction", "") == "LEFT";
    let shifted = |a: i128, b: i128| {
        let by = u32::try_from(b).ok().filter(|by| *by < operation.dtype.bits())?;
        Some(if is_left { a << by } else { a >> by })
    };
    binary(operation, shifted, |_, _| None)
}

pub(crate) fn modulo(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    match operation.node.int("fmod", 0) {
        0 => binary(operation, floored_modulo, |_, _| None),
        _ => binary(operation, i128::checked_rem, |a, b| Some(a % b)),
    }
}

/// Returns the remainder of a division, with the sign of the divisor.
fn floored_modulo(a: i128, b: i128) -> Option<i128> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// Returns the larger of two numbers.
pub(super) fn larger(a: f64, b: f64) -> Option<f64> {
    is_ordered(a, b).then(|| a.max(b))
}

/// Returns the smaller of two numbers.
pub(super) fn smaller(a: f64, b: f64) -> Option<f64> {
    is_ordered(a, b).then(|| a.min(b))
}

/// Returns `false` for NaN and for zeros of both signs: the choice between them is up to the runtime.
fn is_ordered(a: f64, b: f64) -> bool {
    let are_two_zeros = a == 0.0 && b == 0.0 && a.to_bits() != b.to_bits();
    !a.is_nan() && !b.is_nan() && !are_two_zeros
}

/// Evaluates `Relu`. Negative numbers and negative zero become positive zero.
pub(crate) fn relu(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let relu = |v: f64| if v > 0.0 { v } else { 0.0 };
    let result = match Numbers::ordered(operation.input(0)?)? {
        Numbers::Ints(values) => Numbers::Ints(values.into_iter().map(|v| v.max(0)).collect()),
        Numbers::Floats(values) => Numbers::Floats(values.into_iter().map(relu).collect()),
    };
    result.into_tensor(operation)
}

pub(crate) fn is_inf(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let values = Numbers::new(operation.input(0)?)?.floats()?;
    let detects = |name| operation.node.int(name, 1) != 0;
    let (positive, negative) = (detects("detect_positive"), detects("detect_negative"));
    let is_inf = |v: f64| v.is_infinite() && if v > 0.0 { positive } else { negative };
    let values: Vec<bool> = values.into_iter().map(is_inf).collect();
    Ok(Tensor::bools(operation.shape, &values))
}

pub(crate) fn is_nan(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let values = Numbers::new(operation.input(0)?)?.floats()?;
    let values: Vec<bool> = values.into_iter().map(f64::is_nan).collect();
    Ok(Tensor::bools(operation.shape, &values))
}

/// Evaluates `Clip`. If every bit must be the same, a zero must not meet a zero bound of the other
/// sign, because their order is up to the runtime.
pub(crate) fn clip(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let values = match Numbers::new(operation.input(0)?)? {
        Numbers::Ints(values) => values,
        Numbers::Floats(values) => return clip_floats(operation, values),
    };
    let bound = |i| operation.optional(i)?.to_ints()?.first().copied();
    let (low, high) = (bound(1).unwrap_or(i128::MIN), bound(2).unwrap_or(i128::MAX));
    // The upper bound wins if the bounds cross.
    let values = values.into_iter().map(|v| v.max(low).min(high)).collect();
    Numbers::Ints(values).into_tensor(operation)
}

fn clip_floats(operation: &Operation<'_>, values: Vec<f64>) -> Result<Tensor, Reason> {
    let bound = |i: usize, otherwise: f64| match operation.optional(i) {
        Some(tensor) => tensor.to_f64s().and_then(|v| v.first().copied()),
        None => Some(otherwise),
    };
    let (low, high) = (bound(1, f64::NEG_INFINITY), bound(2, f64::INFINITY));
    let (Some(low), Some(high)) = (low, high) else {
        return Err(NOT_COMPUTED);
    };
    // `-0.0` may become the bound `0.0` or stay as it is.
    let has_one_zero = |bound: f64| {
        bound != 0.0 || values.iter().all(|v| *v != 0.0 || v.to_bits() == bound.to_bits())
    };
    let is_clear = operation.may_round() || (has_one_zero(low) && has_one_zero(high));
    let is_ordered = low <= high && values.iter().all(|v| !v.is_nan());
    if !is_ordered || !is_clear {
        return Err(INEXACT);
    }
    let values = values.into_iter().map(|v| {
        if v < low {
            low
        } else if v > high {
            high
        } else {
            v
        }
    });
    let values = values.collect();
    Numbers::Floats(values).into_tensor(operation)
}

/// Compares each pair of elements. No comparison holds for NaN.
fn compare(operation: &Operation<'_>, holds: fn(Ordering) -> bool) -> Result<Tensor, Reason> {
    fn each<T: PartialOrd>(a: &[T], b: &[T], holds: fn(Ordering) -> bool) -> Vec<bool> {
        a.iter().zip(b).map(|(a, b)| a.partial_cmp(b).is_some_and(holds)).collect()
    }
    let numbers = |i| Numbers::broadcast(operation, i);
    let values = match (numbers(0)?, numbers(1)?) {
        (Numbers::Ints(a), Numbers::Ints(b)) => each(&a, &b, holds),
        (Numbers::Floats(a), Numbers::Floats(b)) => each(&a, &b, holds),
        _ => return Err(MISMATCHED),
    };
    Ok(Tensor::bools(operation.shape, &values))
}

pub(crate) fn where_(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let [condition, yes, no] = [0, 1, 2].map(|i| broadcast(operation, i));
    let (condition, yes, no) = (condition?, yes?, no?);
    let mut bytes = Vec::new();
    for (position, holds) in (0..).zip(&*condition.bytes().ok_or(UNKNOWN)?) {
        let source = if *holds == 0 { &no } else { &yes };
        bytes.extend(pick(source, [position])?);
    }
    let tensor = operation.result(bytes)?;
    if operation.may_round() {
        return Ok(tensor);
    }
    // Runtimes may add the contributions of both sides, and adding zero turns `-0.0` into `0.0`.
    let is_minus_zero = |v: &f64| *v == 0.0 && v.is_sign_negative();
    if tensor.to_f64s().is_some_and(|values| values.iter().any(is_minus_zero)) {
        return Err("the sign of zero may change");
    }
    Ok(tensor)
}
