//! Elementwise operators, with broadcasting.

use std::sync::Arc;

use tensor::{DType, Kind, Tensor};

use super::cast::wrapped;
use super::layout::{broadcast_strides, pick, positions};
use super::numbers::Numbers;
use super::{Operation, Reason, UNKNOWN, reduce};
use crate::Node;

/// Returns `true` for the types that arithmetic is evaluated in. Some runtimes compute 16-bit
/// floats in 32 bits. That gives the same result for one operation, because 32-bit floats have more
/// than twice the digits.
fn is_plain(dtype: DType) -> bool {
    let is_float = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    is_float || dtype.is_integer() || dtype == DType::Bool
}

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

pub(crate) fn unary(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    if !is_plain(source.dtype()) {
        return Err("the type is not computed with");
    }
    let op = operation.node.op.name;
    let result = match (op, Numbers::new(source)?) {
        ("Neg", Numbers::Ints(v)) => Numbers::Ints(v.into_iter().map(|v| -v).collect()),
        ("Neg", Numbers::Floats(v)) => Numbers::Floats(v.into_iter().map(|v| -v).collect()),
        ("Abs", Numbers::Ints(v)) => Numbers::Ints(v.into_iter().map(i128::abs).collect()),
        ("Abs", Numbers::Floats(v)) => Numbers::Floats(v.into_iter().map(f64::abs).collect()),
        ("Ceil", Numbers::Floats(v)) => Numbers::Floats(v.into_iter().map(f64::ceil).collect()),
        ("Floor", Numbers::Floats(v)) => Numbers::Floats(v.into_iter().map(f64::floor).collect()),
        ("Round", Numbers::Floats(v)) => {
            Numbers::Floats(v.into_iter().map(f64::round_ties_even).collect())
        }
        ("Sign", Numbers::Ints(v)) => Numbers::Ints(v.into_iter().map(i128::signum).collect()),
        // Not for zeros, because the sign of the result is up to the runtime.
        ("Sign", Numbers::Floats(v)) if v.iter().all(|v| *v != 0.0) => {
            Numbers::Floats(v.into_iter().map(f64::signum).collect())
        }
        // `Reciprocal` and `Sqrt` are correctly rounded, like the four arithmetic operations.
        ("Reciprocal", Numbers::Floats(v)) => {
            Numbers::Floats(v.into_iter().map(f64::recip).collect())
        }
        ("Sqrt", Numbers::Floats(v)) => Numbers::Floats(v.into_iter().map(f64::sqrt).collect()),
        ("BitwiseNot", Numbers::Ints(v)) => {
            Numbers::Ints(v.into_iter().map(|v| wrapped(!v, operation.dtype)).collect())
        }
        ("Not", Numbers::Ints(v)) => Numbers::Ints(v.into_iter().map(|v| 1 - v).collect()),
        _ => return Err("the type is not computed with"),
    };
    result.into_tensor(operation.dtype, operation.shape)
}

pub(crate) fn binary(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    if operation.inputs.len() != 2 || !is_plain(operation.dtype) {
        return Err("the type is not computed with");
    }
    let op = operation.node.op.name;
    let numbers = |i| broadcast(operation, i).and_then(|tensor| Numbers::new(&tensor));
    let (node, dtype) = (operation.node, operation.dtype);
    // Unsigned integers wrap around in every runtime.
    let wraps = dtype.kind() == Kind::Unsigned && matches!(op, "Add" | "Sub" | "Mul" | "BitShift");
    let is_floored = op == "Mod" && node.int("fmod", 0) == 0;
    let result = match (numbers(0)?, numbers(1)?) {
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            let value = |(a, b): (i128, i128)| match op {
                "BitShift" => shifted(node, a, b, dtype),
                _ if is_floored => floored_modulo(a, b),
                _ => int(op, a, b),
            };
            let value = |pair| value(pair).map(|v| if wraps { wrapped(v, dtype) } else { v });
            let values = a.into_iter().zip(b).map(value).collect::<Option<_>>();
            Numbers::Ints(values.ok_or("an integer operation fails")?)
        }
        (Numbers::Floats(_), Numbers::Floats(_)) if is_floored => {
            return Err("the type is not computed with");
        }
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            let values = a.into_iter().zip(b).map(|(a, b)| float(op, a, b));
            let values = values.collect::<Option<_>>();
            Numbers::Floats(values.ok_or("the operation is not exact")?)
        }
        _ => return Err("the operands have different types"),
    };
    result.into_tensor(operation.dtype, operation.shape)
}

/// Evaluates `Sum` of several operands, rounded once.
pub(crate) fn sum(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    if !operation.may_round() {
        return Err("the order of the operations is up to the runtime");
    }
    let limit = reduce::largest(operation.dtype)?;
    let mut operands = Vec::new();
    for index in 0..operation.inputs.len() {
        let Numbers::Floats(values) = Numbers::new(&broadcast(operation, index)?)? else {
            return Err("the type is not computed with");
        };
        operands.push(values);
    }
    let sum = |place: usize| {
        let terms: Option<Vec<f64>> = operands.iter().map(|v| v.get(place).copied()).collect();
        reduce::sum(&terms.unwrap_or_default(), limit)
    };
    let values = (0..operation.shape.iter().product()).map(sum).collect::<Result<_, _>>()?;
    Numbers::Floats(values).into_tensor(operation.dtype, operation.shape)
}

fn shifted(node: &Node, a: i128, b: i128, dtype: DType) -> Option<i128> {
    let by = u32::try_from(b).ok().filter(|by| *by < dtype.bits())?;
    Some(if node.string("direction") == Some("LEFT") { a << by } else { a >> by })
}

/// Returns the remainder of a division, with the sign of the divisor.
fn floored_modulo(a: i128, b: i128) -> Option<i128> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

pub(super) fn int(op: &str, a: i128, b: i128) -> Option<i128> {
    match op {
        "Add" => a.checked_add(b),
        "Sub" => a.checked_sub(b),
        "Mul" => a.checked_mul(b),
        "Div" => a.checked_div(b),
        "Max" => Some(a.max(b)),
        "Min" => Some(a.min(b)),
        "Mod" => a.checked_rem(b),
        "And" | "BitwiseAnd" => Some(a & b),
        "Or" | "BitwiseOr" => Some(a | b),
        "Xor" | "BitwiseXor" => Some(a ^ b),
        _ => None,
    }
}

pub(super) fn float(op: &str, a: f64, b: f64) -> Option<f64> {
    let is_same_zero = a.to_bits() == b.to_bits();
    match op {
        "Add" => Some(a + b),
        "Sub" => Some(a - b),
        "Mul" => Some(a * b),
        "Div" => Some(a / b),
        "Mod" => Some(a % b),
        // The choice between zeros of both signs, and between NaNs, is up to the runtime.
        "Max" | "Min" if a.is_nan() || b.is_nan() || (a == 0.0 && b == 0.0 && !is_same_zero) => {
            None
        }
        "Max" => Some(a.max(b)),
        "Min" => Some(a.min(b)),
        _ => None,
    }
}

/// Evaluates `Relu`. Negative numbers and negative zero become positive zero.
pub(crate) fn relu(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let relu = |v: f64| if v > 0.0 { v } else { 0.0 };
    let result = match Numbers::new(operation.input(0)?)? {
        Numbers::Ints(values) => Numbers::Ints(values.into_iter().map(|v| v.max(0)).collect()),
        Numbers::Floats(values) if values.iter().any(|v| v.is_nan()) => {
            return Err("an operand is not a number");
        }
        Numbers::Floats(values) => Numbers::Floats(values.into_iter().map(relu).collect()),
    };
    result.into_tensor(operation.dtype, operation.shape)
}

pub(crate) fn is_inf(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let Numbers::Floats(values) = Numbers::new(operation.input(0)?)? else {
        return Err("the type is not computed with");
    };
    let detects = |name| operation.node.int(name, 1) != 0;
    let (positive, negative) = (detects("detect_positive"), detects("detect_negative"));
    let is_inf = |v: f64| v.is_infinite() && if v > 0.0 { positive } else { negative };
    let values: Vec<bool> = values.into_iter().map(is_inf).collect();
    Ok(Tensor::bools(operation.shape, &values))
}

pub(crate) fn is_nan(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let Numbers::Floats(values) = Numbers::new(operation.input(0)?)? else {
        return Err("the type is not computed with");
    };
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
    let bound = |i: usize| match operation.inputs.get(i) {
        Some(Some(tensor)) => tensor.to_ints().and_then(|v| v.first().copied()),
        _ => None,
    };
    let (low, high) = (bound(1).unwrap_or(i128::MIN), bound(2).unwrap_or(i128::MAX));
    // The upper bound wins if the bounds cross.
    let values = values.into_iter().map(|v| v.max(low).min(high)).collect();
    Numbers::Ints(values).into_tensor(operation.dtype, operation.shape)
}

fn clip_floats(operation: &Operation<'_>, values: Vec<f64>) -> Result<Tensor, Reason> {
    let bound = |i: usize, otherwise: f64| match operation.inputs.get(i) {
        Some(Some(tensor)) => tensor.to_f64s().and_then(|v| v.first().copied()),
        _ => Some(otherwise),
    };
    let (low, high) = (bound(1, f64::NEG_INFINITY), bound(2, f64::INFINITY));
    let (Some(low), Some(high)) = (low, high) else {
        return Err("the type is not computed with");
    };
    // `-0.0` may become the bound `0.0` or stay as it is.
    let has_one_zero = |bound: f64| {
        bound != 0.0 || values.iter().all(|v| *v != 0.0 || v.to_bits() == bound.to_bits())
    };
    let is_clear = operation.may_round() || (has_one_zero(low) && has_one_zero(high));
    let is_ordered = low <= high && values.iter().all(|v| !v.is_nan());
    if !is_ordered || !is_clear {
        return Err("the operation is not exact");
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
    Numbers::Floats(values).into_tensor(operation.dtype, operation.shape)
}

pub(crate) fn compare(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let op = operation.node.op.name;
    let numbers = |i| broadcast(operation, i).and_then(|tensor| Numbers::new(&tensor));
    let values: Vec<bool> = match (numbers(0)?, numbers(1)?) {
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            a.iter().zip(&b).map(|(a, b)| holds(op, a, b)).collect()
        }
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            a.iter().zip(&b).map(|(a, b)| holds(op, a, b)).collect()
        }
        _ => return Err("the operands have different types"),
    };
    Ok(Tensor::bools(operation.shape, &values))
}

fn holds<T: PartialOrd>(op: &str, a: &T, b: &T) -> bool {
    match op {
        "Less" => a < b,
        "LessOrEqual" => a <= b,
        "Greater" => a > b,
        "GreaterOrEqual" => a >= b,
        _ => a == b,
    }
}

pub(crate) fn where_(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let [condition, yes, no] = [0, 1, 2].map(|i| broadcast(operation, i));
    let (condition, yes, no) = (condition?, yes?, no?);
    let mut bytes = Vec::new();
    for (position, holds) in (0..).zip(&*condition.bytes().ok_or(UNKNOWN)?) {
        let source = if *holds == 0 { &no } else { &yes };
        bytes.extend(pick(source, [position])?);
    }
    let tensor = Tensor::new(operation.dtype, operation.shape, Arc::new(bytes));
    let tensor = tensor.map_err(|_| "the result does not have the inferred size")?;
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
