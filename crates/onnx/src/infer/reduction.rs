//! Operators that reduce along axes.

use tensor::{DType, Dim, Shape, Type};

use super::call::Call;
use crate::Result;
use tensor::bounds::same;

fn reduced(shape: &[Dim], gone: impl Fn(usize) -> bool, keep: bool) -> Shape {
    let size = |(i, dim): (usize, &Dim)| match gone(i) {
        true => keep.then_some(Dim::Known(1)),
        false => Some(dim.clone()),
    };
    shape.iter().enumerate().filter_map(size).collect()
}

/// Infers the type of the `Reduce*` operators, whose axes are an operand. Without axes, all axes
/// are reduced or none, depending on an attribute.
pub(crate) fn reduce(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    call.not_an_attr("axes")?;
    let keep = call.flag("keepdims", true)?;
    let axes = match call.optional(1) {
        Some(_) => call.axes(&call.numbers(1)?, ty.rank())?,
        None => Default::default(),
    };
    let is_all = !call.flag("noop_with_empty_axes", false)? && axes.is_empty();
    Ok(vec![Type::new(ty.dtype, reduced(&ty.shape, |i| is_all || axes.contains(&i), keep))])
}

/// Infers the type of `ArgMax` and `ArgMin`.
pub(crate) fn arg(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let axis = call.axis_attr(0, ty.rank())?;
    if ty.shape[axis] == Dim::Known(0) {
        return Err(call.error(format!("axis {axis} of {ty} is empty")));
    }
    let shape = reduced(&ty.shape, |i| i == axis, call.flag("keepdims", true)?);
    Ok(vec![Type::new(DType::I64, shape)])
}

/// Infers the type of the determinants of the matrices on the last two axes.
pub(crate) fn det(call: &Call<'_>) -> Result<Vec<Type>> {
    let rank = call.ranked_from(0, 2)?.rank();
    let is_square = |ty: &Type| same(&ty.shape[rank - 2], &ty.shape[rank - 1]);
    let ty = call.required(0, "its matrices must be square", is_square)?;
    Ok(vec![Type::new(ty.dtype, &ty.shape[..rank - 2])])
}

/// Infers the type of the `Global*Pool` operators. Every axis after batch and channels gets size
/// one.
pub(crate) fn global_pool(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked_from(0, 2)?;
    Ok(vec![Type::new(ty.dtype, reduced(&ty.shape, |i| i >= 2, true))])
}
