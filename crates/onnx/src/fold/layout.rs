//! Operators that move elements without changing them.

use std::sync::Arc;

use tensor::Tensor;

use super::{Operation, Reason, UNKNOWN, axis, permutation};

/// The bytes of one element; elements that share a byte cannot be moved one by one.
fn width(tensor: &Tensor) -> Result<usize, Reason> {
    match tensor.dtype().bits() {
        bits if bits.is_multiple_of(8) => Ok(bits as usize / 8),
        _ => Err(PACKED),
    }
}

fn tensor(operation: &Operation<'_>, bytes: Vec<u8>) -> Result<Tensor, Reason> {
    let tensor = Tensor::new(operation.dtype, operation.shape, Arc::new(bytes));
    tensor.map_err(|_| "the result has another size than was inferred")
}

/// The same elements in another shape.
pub(super) fn reshape(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let reshaped = operation.input(0)?.reshaped(operation.shape);
    reshaped.map_err(|_| "the result has another size than was inferred")
}

/// Why the elements of a tensor stay in their order.
const PACKED: Reason = "the elements are packed";

/// All elements of the first operand in another order, another shape or as other floats, if that is what an
/// operator gives. They are read where they are.
pub(super) fn view(operation: &Operation<'_>) -> Result<Option<Tensor>, Reason> {
    let (source, shape) = (operation.input(0)?, operation.shape);
    let view = match operation.node.op.name {
        "Cast" if source.dtype().is_float() => match source.cast(operation.dtype) {
            Ok(cast) => cast,
            Err(_) => return Ok(None),
        },
        "Transpose" => {
            let axes = permutation(operation.node, source.shape().len())?;
            source.transposed(&axes).map_err(|_| PACKED)?
        }
        "Expand" if shape.iter().product::<usize>() != source.len() => return Ok(None),
        "Expand" | "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze" => reshape(operation)?,
        "Slice" if shape == source.shape() => {
            let (Ok(axes), Ok(steps)) = (operation.ints(3), operation.ints(4)) else {
                return Ok(None);
            };
            if steps.iter().any(|step| step.abs() != 1) {
                return Ok(None);
            }
            let flipped = axes.iter().zip(&steps).filter(|(_, step)| **step == -1);
            let flipped = flipped.map(|(along, _)| axis(*along, shape.len()));
            source.reversed(&flipped.collect::<Result<Vec<_>, _>>()?).map_err(|_| PACKED)?
        }
        _ => return Ok(None),
    };
    Ok(Some(view))
}

/// How far apart the neighbours along each axis are, in elements.
pub(super) fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].cast_signed();
    }
    strides
}

/// The strides with which a tensor of shape `from` is read as one of shape `to`.
pub(super) fn broadcast_strides(from: &[usize], to: &[usize]) -> Result<Vec<isize>, Reason> {
    let added = to.len().checked_sub(from.len()).ok_or("an operand has too many axes")?;
    let own = strides(from);
    let stride = |(i, size): (usize, &usize)| match i.checked_sub(added) {
        None => Ok(0),
        Some(i) if from[i] == 1 => Ok(0),
        Some(i) if from[i] == *size => Ok(own[i]),
        Some(_) => Err("an operand does not broadcast"),
    };
    to.iter().enumerate().map(stride).collect()
}

/// The positions in a tensor that is read with `strides`, from `start` on, in the order of `shape`.
pub(super) fn positions(shape: &[usize], strides: &[isize], start: isize) -> Vec<isize> {
    let mut positions = vec![start];
    for (size, stride) in shape.iter().zip(strides) {
        let along = |p: &isize| {
            let p = *p;
            (0..*size).map(move |i| p + i.cast_signed() * stride)
        };
        positions = positions.iter().flat_map(along).collect();
    }
    positions
}

/// The element of `source` at each of `positions`.
pub(super) fn pick(
    source: &Tensor,
    positions: impl IntoIterator<Item = isize>,
) -> Result<Vec<u8>, Reason> {
    let (width, bytes) = (width(source)?, source.bytes().ok_or(UNKNOWN)?);
    let mut picked = Vec::new();
    for position in positions {
        let at = usize::try_from(position).ok().and_then(|p| p.checked_mul(width));
        let element =
            at.and_then(|at| bytes.get(at..at + width)).ok_or("an index is out of range")?;
        picked.extend_from_slice(element);
    }
    Ok(picked)
}

/// The elements in another order.
pub(super) fn transpose(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let perm = permutation(operation.node, source.shape().len())?;
    let transposed = source.transposed(&perm).map_err(|_| PACKED)?;
    tensor(operation, transposed.bytes().ok_or(UNKNOWN)?.into_owned())
}

pub(super) fn expand(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let strides = broadcast_strides(source.shape(), operation.shape)?;
    tensor(operation, pick(source, positions(operation.shape, &strides, 0))?)
}

pub(super) fn slice(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let (starts, shape) = (operation.ints(1)?, source.shape());
    let optional = |i: usize| match operation.inputs.get(i) {
        Some(Some(tensor)) => tensor.to_i64s(),
        _ => None,
    };
    let axes = optional(3).unwrap_or_else(|| (0..).take(starts.len()).collect());
    let steps = optional(4).unwrap_or_else(|| vec![1; starts.len()]);
    let mut strides = strides(shape);
    let mut first = 0;
    for ((start, along), step) in starts.iter().zip(axes).zip(steps) {
        let along = axis(along, shape.len())?;
        let size = i64::try_from(shape[along]).unwrap_or(i64::MAX);
        let start = if *start < 0 { start.saturating_add(size) } else { *start };
        // Reading backwards starts at the last element at most.
        let start = start.clamp(0, if step < 0 { (size - 1).max(0) } else { size });
        let step = isize::try_from(step).map_err(|_| "a step is too large")?;
        first += isize::try_from(start).map_err(|_| "a start is too large")? * strides[along];
        strides[along] = strides[along].saturating_mul(step);
    }
    tensor(operation, pick(source, positions(operation.shape, &strides, first))?)
}

pub(super) fn concat(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let along = operation.axis(0, operation.shape.len())?;
    let parts = (0..operation.inputs.len()).map(|i| operation.input(i));
    let parts: Vec<&Tensor> = parts.collect::<Result<_, _>>()?;
    let rows = operation.shape[..along].iter().product();
    let mut bytes = Vec::new();
    for row in 0..rows {
        for part in &parts {
            let size = width(part)? * part.shape()[along..].iter().product::<usize>();
            let all = part.bytes().ok_or(UNKNOWN)?;
            let row = all.get(row * size..(row + 1) * size);
            bytes.extend_from_slice(row.ok_or("an operand has a different shape")?);
        }
    }
    tensor(operation, bytes)
}

pub(super) fn gather(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let (source, indices) = (operation.input(0)?, operation.ints(1)?);
    let shape = source.shape();
    let along = operation.axis(0, shape.len())?;
    let inner: usize = shape[along + 1..].iter().product();
    let indices = indices.iter().map(|i| axis(*i, shape[along]));
    let indices: Vec<usize> = indices.collect::<Result<_, _>>()?;
    let mut positions = Vec::new();
    for outer in 0..shape[..along].iter().product() {
        for index in &indices {
            let first = (outer * shape[along] + index) * inner;
            positions.extend((first..first + inner).map(usize::cast_signed));
        }
    }
    tensor(operation, pick(source, positions)?)
}
