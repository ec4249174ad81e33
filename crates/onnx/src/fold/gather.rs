//! Operators that read elements at indices.

use tensor::Tensor;

use super::layout::picked;
use super::scatter::{places_of_elements, places_of_rows};
use super::{MISSHAPEN, Operation, Reason, axis};

/// Evaluates `Gather`, which reads slices along one axis.
pub(crate) fn gather(operation: &Operation<'_>) -> Result<Tensor, Reason> {
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
    picked(operation, source, positions)
}

/// Evaluates `GatherND`, which reads elements or slices at indices into the first axes.
pub(crate) fn gather_nd(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let (source, indices) = (operation.input(0)?, operation.input(1)?);
    let batch = usize::try_from(operation.node.int("batch_dims", 0)).unwrap_or(0);
    if batch >= indices.shape().len() || source.shape().get(..batch) != indices.shape().get(..batch)
    {
        return Err(MISSHAPEN);
    }
    picked(operation, source, places_of_rows(source.shape(), indices, batch)?)
}

/// Evaluates `GatherElements`, which reads one element per index along one axis.
pub(crate) fn gather_elements(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let (source, indices) = (operation.input(0)?, operation.input(1)?);
    let along = operation.axis(0, source.shape().len())?;
    picked(operation, source, places_of_elements(source.shape(), indices, along)?)
}
