//! Operators that work element by element, with broadcasting.

use std::sync::Arc;

use tensor::{DType, Tensor};

use super::Operation;
use super::layout::{broadcast_strides, pick, positions};
use super::numbers::Numbers;
use crate::Skip;

/// Arithmetic is done for these floats only; narrower ones are computed in wider types by some
/// runtimes and not by others.
fn is_plain(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64) || dtype.is_integer() || dtype == DType::Bool
}

/// The operand at `index`, broadcast to the shape of the result.
fn broadcast(operation: &Operation<'_>, index: usize) -> Result<Tensor, Skip> {
    let source = operation.input(index)?;
    if source.shape() == operation.shape {
        return Ok(source.clone());
    }
    let strides = broadcast_strides(source.shape(), operation.shape)?;
    let bytes = pick(source, positions(operation.shape, &strides, 0))?;
    let tensor = Tensor::new(source.dtype(), operation.shape, Arc::new(bytes));
    tensor.map_err(|_| Skip::Because("an operand does not broadcast"))
}

pub(super) fn unary(operation: &Operation<'_>) -> Result<Tensor, Skip> {
    let source = operation.input(0)?;
    if !is_plain(source.dtype()) {
        return Err("the type is not computed with".into());
    }
    let op = operation.node.op.name;
    let result = match (op, Numbers::new(source)?) {
        ("Neg", Numbers::Ints(v)) => Numbers::Ints(v.into_iter().map(|v| -v).collect()),
        ("Neg", Numbers::Floats(v)) => Numbers::Floats(v.into_iter().map(|v| -v).collect()),
        ("Abs", Numbers::Ints(v)) => Numbers::Ints(v.into_iter().map(i128::abs).collect()),
        ("Abs", Numbers::Floats(v)) => Numbers::Floats(v.into_iter().map(f64::abs).collect()),
        ("Sign", Numbers::Ints(v)) => Numbers::Ints(v.into_iter().map(i128::signum).collect()),
        // Both are rounded correctly, like the four operations of arithmetic.
        ("Reciprocal", Numbers::Floats(v)) => {
            Numbers::Floats(v.into_iter().map(f64::recip).collect())
        }
        ("Sqrt", Numbers::Floats(v)) => Numbers::Floats(v.into_iter().map(f64::sqrt).collect()),
        ("Not", Numbers::Ints(v)) => Numbers::Ints(v.into_iter().map(|v| 1 - v).collect()),
        _ => return Err("the type is not computed with".into()),
    };
    result.into_tensor(operation.dtype, operation.shape)
}

pub(super) fn binary(operation: &Operation<'_>) -> Result<Tensor, Skip> {
    if operation.inputs.len() != 2 || !is_plain(operation.dtype) {
        return Err("the type is not computed with".into());
    }
    let op = operation.node.op.name;
    let numbers = |i| broadcast(operation, i).and_then(|tensor| Numbers::new(&tensor));
    let result = match (numbers(0)?, numbers(1)?) {
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            let values = a.into_iter().zip(b).map(|(a, b)| int(op, a, b));
            let values = values.collect::<Option<_>>();
            Numbers::Ints(values.ok_or("an integer operation fails")?)
        }
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            let values = a.into_iter().zip(b).map(|(a, b)| float(op, a, b));
            let values = values.collect::<Option<_>>();
            Numbers::Floats(values.ok_or("the operation is not exact")?)
        }
        _ => return Err("the operands have different types".into()),
    };
    result.into_tensor(operation.dtype, operation.shape)
}

fn int(op: &str, a: i128, b: i128) -> Option<i128> {
    match op {
        "Add" => a.checked_add(b),
        "Sub" => a.checked_sub(b),
        "Mul" => a.checked_mul(b),
        "Div" => a.checked_div(b),
        "Max" => Some(a.max(b)),
        "Min" => Some(a.min(b)),
        "And" => Some(a & b),
        "Or" => Some(a | b),
        "Xor" => Some(a ^ b),
        _ => None,
    }
}

fn float(op: &str, a: f64, b: f64) -> Option<f64> {
    match op {
        "Add" => Some(a + b),
        "Sub" => Some(a - b),
        "Mul" => Some(a * b),
        "Div" => Some(a / b),
        // Which zero, and which NaN, `Max` and `Min` choose is up to the runtime.
        _ => None,
    }
}

/// `Clip` of integers.
pub(super) fn clip(operation: &Operation<'_>) -> Result<Tensor, Skip> {
    let Numbers::Ints(values) = Numbers::new(operation.input(0)?)? else {
        return Err("the type is not computed with".into());
    };
    let bound = |i: usize| match operation.inputs.get(i) {
        Some(Some(tensor)) => tensor.to_ints().and_then(|v| v.first().copied()),
        _ => None,
    };
    let (low, high) = (bound(1).unwrap_or(i128::MIN), bound(2).unwrap_or(i128::MAX));
    // The upper bound wins where they cross.
    let values = values.into_iter().map(|v| v.max(low).min(high)).collect();
    Numbers::Ints(values).into_tensor(operation.dtype, operation.shape)
}

pub(super) fn compare(operation: &Operation<'_>) -> Result<Tensor, Skip> {
    let op = operation.node.op.name;
    let numbers = |i| broadcast(operation, i).and_then(|tensor| Numbers::new(&tensor));
    let values: Vec<bool> = match (numbers(0)?, numbers(1)?) {
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            a.iter().zip(&b).map(|(a, b)| holds(op, a, b)).collect()
        }
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            a.iter().zip(&b).map(|(a, b)| holds(op, a, b)).collect()
        }
        _ => return Err("the operands have different types".into()),
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

pub(super) fn where_(operation: &Operation<'_>) -> Result<Tensor, Skip> {
    let [condition, yes, no] = [0, 1, 2].map(|i| broadcast(operation, i));
    let (condition, yes, no) = (condition?, yes?, no?);
    let mut bytes = Vec::new();
    for (position, holds) in (0..).zip(condition.bytes()) {
        let source = if *holds == 0 { &no } else { &yes };
        bytes.extend(pick(source, [position])?);
    }
    let tensor = Tensor::new(operation.dtype, operation.shape, Arc::new(bytes));
    let tensor = tensor.map_err(|_| "the result has another size than was inferred")?;
    // onnxruntime adds up what either side contributes, and zero turns `-0.0` into `0.0`.
    let is_minus_zero = |v: &f64| *v == 0.0 && v.is_sign_negative();
    if tensor.to_f64s().is_some_and(|values| values.iter().any(is_minus_zero)) {
        return Err("the sign of zero may change".into());
    }
    Ok(tensor)
}
