//! Data-movement operators.

use tensor::Tensor;

use super::{OUT_OF_RANGE, Operation, PACKED, Reason, UNKNOWN, axis, permutation};

/// Returns the number of bytes of one element. Fails if elements share a byte, because they cannot
/// be moved individually.
pub(super) fn width(tensor: &Tensor) -> Result<usize, Reason> {
    match tensor.dtype().bits() {
        bits if bits.is_multiple_of(8) => Ok(bits as usize / 8),
        _ => Err(PACKED),
    }
}

/// Returns the same elements in the shape of the result.
pub(crate) fn reshape(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let reshaped = operation.input(0)?.reshaped(operation.shape);
    reshaped.map_err(|_| "the result has another size than was inferred")
}

/// Implements [`super::view`].
pub(super) fn view(operation: &Operation<'_>) -> Result<Option<Tensor>, Reason> {
    let (source, shape) = (operation.input(0)?, operation.shape);
    let view = match operation.node.op.name {
        "Cast" => match source.cast(operation.dtype) {
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

/// Returns the distance between neighbours along each axis, in elements.
pub(super) fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].cast_signed();
    }
    strides
}

/// Returns the strides for reading a tensor of shape `from` as one of shape `to`.
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

/// Returns the positions that are read from a tensor with `strides`, from `start` on, in the order
/// of `shape`.
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

/// Returns the bytes of the elements of `source` at `positions`.
pub(super) fn pick(
    source: &Tensor,
    positions: impl IntoIterator<Item = isize>,
) -> Result<Vec<u8>, Reason> {
    let (width, bytes) = (width(source)?, source.bytes().ok_or(UNKNOWN)?);
    let mut picked = Vec::new();
    for position in positions {
        let at = usize::try_from(position).ok().and_then(|p| p.checked_mul(width));
        let element = at.and_then(|at| bytes.get(at..at + width)).ok_or(OUT_OF_RANGE)?;
        picked.extend_from_slice(element);
    }
    Ok(picked)
}

/// Returns the result, which consists of the elements of `source` at `positions`.
pub(super) fn picked(
    operation: &Operation<'_>,
    source: &Tensor,
    positions: impl IntoIterator<Item = isize>,
) -> Result<Tensor, Reason> {
    operation.result(pick(source, positions)?)
}

/// Evaluates `Transpose`.
pub(crate) fn transpose(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let perm = permutation(operation.node, source.shape().len())?;
    let transposed = source.transposed(&perm).map_err(|_| PACKED)?;
    operation.result(transposed.bytes().ok_or(UNKNOWN)?.into_owned())
}

pub(crate) fn expand(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let strides = broadcast_strides(source.shape(), operation.shape)?;
    picked(operation, source, positions(operation.shape, &strides, 0))
}

pub(crate) fn slice(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let (starts, shape) = (operation.ints(1)?, source.shape());
    let optional = |i| operation.optional(i)?.to_i64s();
    let axes = optional(3).unwrap_or_else(|| (0..).take(starts.len()).collect());
    let steps = optional(4).unwrap_or_else(|| vec![1; starts.len()]);
    let mut strides = strides(shape);
    let mut first = 0;
    for ((start, along), step) in starts.iter().zip(axes).zip(steps) {
        let along = axis(along, shape.len())?;
        let size = i64::try_from(shape[along]).unwrap_or(i64::MAX);
        let start = if *start < 0 { start.saturating_add(size) } else { *start };
        // A backward slice starts at the last element at the latest.
        let start = start.clamp(0, if step < 0 { (size - 1).max(0) } else { size });
        let step = isize::try_from(step).map_err(|_| "a step is too large")?;
        first += isize::try_from(start).map_err(|_| "a start is too large")? * strides[along];
        strides[along] = strides[along].saturating_mul(step);
    }
    picked(operation, source, positions(operation.shape, &strides, first))
}

pub(crate) fn concat(operation: &Operation<'_>) -> Result<Tensor, Reason> {
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
    operation.result(bytes)
}

/// Evaluates one of the results of `Split`.
pub(crate) fn split(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let along = operation.axis(0, source.shape().len())?;
    let before = match operation.optional(1) {
        Some(_) => operation.ints(1)?.iter().take(operation.result).sum(),
        // All parts are as large as the first, except the last.
        None => {
            let parts = usize::try_from(operation.node.int("num_outputs", 0)).unwrap_or(0);
            let before = source.shape()[along].div_ceil(parts.max(1)) * operation.result;
            i64::try_from(before).map_err(|_| "a part is too large")?
        }
    };
    let strides = strides(source.shape());
    let start = isize::try_from(before).map_err(|_| "a part is too large")? * strides[along];
    picked(operation, source, positions(operation.shape, &strides, start))
}

/// Evaluates `Pad` with a constant. Negative pads crop.
pub(crate) fn pad(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let (source, pads) = (operation.input(0)?, operation.ints(1)?);
    if operation.node.string("mode", "constant") != "constant" {
        return Err("the operator is not evaluated");
    }
    let (shape, rank) = (source.shape(), source.shape().len());
    let axes = operation.axes(3, rank)?.unwrap_or_else(|| (0..rank).collect());
    let mut before = vec![0isize; rank];
    for (along, pad) in axes.iter().zip(&pads) {
        before[*along] = isize::try_from(*pad).map_err(|_| "a size is too large")?;
    }
    let width = width(source)?;
    let filler = match operation.optional(2) {
        Some(value) => value.bytes().ok_or(UNKNOWN)?.into_owned(),
        None => vec![0; width],
    };
    let bytes = source.bytes().ok_or(UNKNOWN)?;
    // The position of each element in the source, or `None` for padding.
    let own = strides(shape);
    let mut from: Vec<Option<isize>> = vec![Some(0)];
    for (along, size) in operation.shape.iter().enumerate() {
        let next = |at: &Option<isize>| {
            let at = *at;
            let (before, own, limit) = (before[along], own[along], shape[along].cast_signed());
            (0..size.cast_signed()).map(move |i| {
                let i = i - before;
                at.filter(|_| i >= 0 && i < limit).map(|at| at + i * own)
            })
        };
        from = from.iter().flat_map(next).collect();
    }
    let mut padded = Vec::with_capacity(from.len() * width);
    for at in from {
        let start = at.map(|at| at.unsigned_abs() * width);
        let element = match start {
            Some(start) => bytes.get(start..start + width),
            None => Some(filler.as_slice()),
        };
        padded.extend_from_slice(element.ok_or("an operand has a different shape")?);
    }
    operation.result(padded)
}

/// Evaluates `Tile`, which repeats the tensor along each axis.
pub(crate) fn tile(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let (shape, own) = (source.shape(), strides(source.shape()));
    let mut from = vec![0isize];
    for (along, size) in operation.shape.iter().enumerate() {
        let limit = *shape.get(along).filter(|n| **n > 0).ok_or("there is nothing to repeat")?;
        let step = own[along];
        let next = |at: &isize| {
            let at = *at;
            (0..*size).map(move |i| at + (i % limit).cast_signed() * step)
        };
        from = from.iter().flat_map(next).collect();
    }
    picked(operation, source, from)
}

/// Evaluates `Trilu`, which replaces the elements on one side of a diagonal with zeros.
pub(crate) fn trilu(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let [.., rows, columns] = *source.shape() else { return Err("it is not a matrix") };
    let diagonal = match operation.optional(1) {
        Some(_) => operation.ints(1)?.first().copied().unwrap_or(0),
        None => 0,
    };
    let is_upper = operation.node.int("upper", 1) != 0;
    let width = width(source)?;
    let mut bytes = source.bytes().ok_or(UNKNOWN)?.into_owned();
    for (place, element) in bytes.chunks_mut(width).enumerate() {
        let (row, column) = (place / columns.max(1) % rows.max(1), place % columns.max(1));
        let (row, column) = (i64::try_from(row), i64::try_from(column));
        let (Ok(row), Ok(column)) = (row, column) else { return Err("a size is too large") };
        let distance = (column - row).saturating_sub(diagonal);
        if if is_upper { distance < 0 } else { distance > 0 } {
            element.fill(0);
        }
    }
    operation.result(bytes)
}
