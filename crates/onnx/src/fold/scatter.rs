//! Operators that write elements at indices.

use tensor::Tensor;

use super::elementwise::{larger, smaller};
use super::layout::{positions, strides, width};
use super::numbers::{Numbers, rounded};
use super::{INEXACT, MISSHAPEN, ORDER, OUT_OF_RANGE, Operation, Reason, UNKNOWN, axis};

/// A binary operation; `None` if its result is not known.
type Combine<T> = fn(T, T) -> Option<T>;

/// Evaluates `ScatterND`, which writes elements or slices at indices into the first axes.
pub(crate) fn scatter_nd(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let (data, indices) = (operation.input(0)?, operation.input(1)?);
    let places = places_of_rows(data.shape(), indices, 0)?;
    write(operation, &places)
}

/// Returns the positions of the elements that the rows of `indices` select in a tensor of `shape`.
/// Both have the same first `batch` axes.
pub(super) fn places_of_rows(
    shape: &[usize],
    indices: &Tensor,
    batch: usize,
) -> Result<Vec<isize>, Reason> {
    let Some((depth, rows)) = indices.shape().split_last() else {
        return Err("the indices are a scalar");
    };
    let inner = shape.get(batch + depth..).ok_or("an index has too many parts")?;
    let strides = strides(shape);
    let within = positions(inner, &strides[batch + depth..], 0);
    let of_batch = positions(&shape[..batch], &strides[..batch], 0);
    let count: usize = rows[batch..].iter().product();
    let all = indices.to_i64s().ok_or("an operand is not integer")?;
    let mut places = Vec::new();
    for row in 0..rows.iter().product() {
        let mut start = *of_batch.get(row / count.max(1)).ok_or("an operand is misshapen")?;
        let index = all.get(row * depth..(row + 1) * depth).ok_or("an operand is misshapen")?;
        for (along, at) in (batch..).zip(index) {
            start += axis(*at, shape[along])?.cast_signed() * strides[along];
        }
        places.extend(within.iter().map(|offset| start + offset));
    }
    Ok(places)
}

/// Evaluates `ScatterElements`, which writes each update at its index along one axis.
pub(crate) fn scatter_elements(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let (data, indices) = (operation.input(0)?, operation.input(1)?);
    let along = operation.axis(0, data.shape().len())?;
    let places = places_of_elements(data.shape(), indices, along)?;
    write(operation, &places)
}

/// Returns the positions that `indices` selects in a tensor of `shape`. An element of `indices` is
/// the coordinate along one axis; its own position gives the other coordinates.
pub(super) fn places_of_elements(
    shape: &[usize],
    indices: &Tensor,
    along: usize,
) -> Result<Vec<isize>, Reason> {
    let mut steps = strides(shape);
    let step = steps[along];
    steps[along] = 0;
    let ints = indices.to_i64s().ok_or("an operand is not integer")?;
    let place =
        |(start, at): (isize, &i64)| Ok(start + axis(*at, shape[along])?.cast_signed() * step);
    positions(indices.shape(), &steps, 0).into_iter().zip(&ints).map(place).collect()
}

/// Returns the first operand with the updates written at `places`.
fn write(operation: &Operation<'_>, places: &[isize]) -> Result<Tensor, Reason> {
    let (data, updates) = (operation.input(0)?, operation.input(2)?);
    if places.len() != updates.len() {
        return Err(MISSHAPEN);
    }
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    let is_written_once = sorted.windows(2).all(|pair| pair[0] != pair[1]);
    match operation.node.string("reduction", "none") {
        // The runtime decides which update wins.
        "none" if !is_written_once => Err("a place is written twice"),
        "none" => {
            let (width, updates) = (width(data)?, updates.bytes().ok_or(UNKNOWN)?);
            let mut bytes = data.bytes().ok_or(UNKNOWN)?.into_owned();
            for (place, update) in places.iter().zip(updates.chunks(width)) {
                let start = usize::try_from(*place).ok().and_then(|p| p.checked_mul(width));
                let target = start.and_then(|start| bytes.get_mut(start..start + width));
                target.ok_or(OUT_OF_RANGE)?.copy_from_slice(update);
            }
            operation.result(bytes)
        }
        reduction => {
            let (ints, floats): (Combine<i128>, Combine<f64>) = match reduction {
                "add" => (i128::checked_add, |a, b| Some(a + b)),
                "mul" => (i128::checked_mul, |a, b| Some(a * b)),
                "max" => (|a, b| Some(a.max(b)), larger),
                "min" => (|a, b| Some(a.min(b)), smaller),
                _ => return Err("the operator is not evaluated"),
            };
            let is_ordering = matches!(reduction, "max" | "min");
            let is_exact = is_written_once || is_ordering || operation.may_round();
            let result = match (Numbers::new(data)?, Numbers::new(updates)?) {
                (Numbers::Ints(mut data), Numbers::Ints(updates)) => {
                    combine(&mut data, places, &updates, ints)?;
                    Numbers::Ints(data)
                }
                (Numbers::Floats(mut data), Numbers::Floats(updates)) if is_exact => {
                    // Round after each operation, so that an intermediate overflow remains
                    // infinite.
                    let dtype = operation.dtype;
                    combine(&mut data, places, &updates, |a, b| rounded(floats(a, b)?, dtype))?;
                    Numbers::Floats(data)
                }
                _ => return Err(ORDER),
            };
            result.into_tensor(operation)
        }
    }
}

fn combine<T: Copy>(
    data: &mut [T],
    places: &[isize],
    updates: &[T],
    with: impl Fn(T, T) -> Option<T>,
) -> Result<(), Reason> {
    for (place, update) in places.iter().zip(updates) {
        let target = usize::try_from(*place).ok().and_then(|place| data.get_mut(place));
        let target = target.ok_or(OUT_OF_RANGE)?;
        *target = with(*target, *update).ok_or(INEXACT)?;
    }
    Ok(())
}
