//! Pooling with a sliding window.

use tensor::{DType, Dim, Type};

use super::call::Call;
use super::window::Window;
use crate::Result;

pub(crate) fn pool(call: &Call<'_>) -> Result<Vec<Type>> {
    let mut ty = call.ranked_from(0, 3)?.clone();
    let space = ty.rank() - 2;
    let kernel = call.ints_of("kernel_shape", space)?;
    let kernel = kernel.ok_or_else(|| call.error("attribute `kernel_shape` is missing"))?;
    if kernel.iter().any(|size| *size < 1) {
        return Err(call.error("`kernel_shape` must be positive"));
    }
    let window = Window::read(call, space)?;
    for (i, size) in kernel.iter().enumerate() {
        ty.shape[i + 2] = window.places(call, i, &ty.shape[i + 2], &Dim::Known(*size))?;
    }
    Ok(vec![ty])
}

/// Infers the types of `MaxPool`, which may also return the indices of the largest elements.
pub(crate) fn max_pool(call: &Call<'_>) -> Result<Vec<Type>> {
    let mut types = pool(call)?;
    types.push(Type::new(DType::I64, types[0].shape.clone()));
    Ok(types)
}
