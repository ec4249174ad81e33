//! Matrix products.

use tensor::{DType, Dim, Shape, Type};

use super::broadcast::{broadcast, broadcasts_to};
use super::call::Call;
use crate::Result;
use tensor::bounds::same;

/// Returns the shape of numpy's `matmul` of the operands at `a` and `b`.
fn product_shape(call: &Call<'_>, a: usize, b: usize) -> Result<Shape> {
    let (a, b) = (call.ranked_from(a, 1)?, call.ranked_from(b, 1)?);
    let (left, right) = (&a.shape, &b.shape);
    let (columns, rows) = (&left[left.len() - 1], &right[right.len().saturating_sub(2)]);
    if !same(columns, rows) {
        return Err(call.error(format!("sizes {columns} and {rows} differ in {a} and {b}")));
    }
    let mut shape = match (left.split_last_chunk::<2>(), right.split_last_chunk::<2>()) {
        (Some((x, _)), Some((y, _))) => broadcast(call, x, y)?,
        (Some((batch, _)), None) | (None, Some((batch, _))) => batch.to_vec(),
        (None, None) => Shape::new(),
    };
    if let Some((_, [rows, _])) = left.split_last_chunk::<2>() {
        shape.push(rows.clone());
    }
    if let Some((_, [_, columns])) = right.split_last_chunk::<2>() {
        shape.push(columns.clone());
    }
    Ok(shape)
}

pub(crate) fn matmul(call: &Call<'_>) -> Result<Vec<Type>> {
    call.same_dtype(0, 1)?;
    Ok(vec![Type::new(call.ty(0)?.dtype, product_shape(call, 0, 1)?)])
}

pub(crate) fn matmul_integer(call: &Call<'_>) -> Result<Vec<Type>> {
    zero_points(call)?;
    Ok(vec![Type::new(DType::I32, product_shape(call, 0, 1)?)])
}

/// Checks that operands 0 and 1 have 8 bits, and that their zero points have the same types.
pub(super) fn zero_points(call: &Call<'_>) -> Result<()> {
    for i in 0..2 {
        call.required(i, "must be i8 or u8", |ty| matches!(ty.dtype, DType::I8 | DType::U8))?;
        if call.optional(i + 2).is_some() {
            call.same_dtype(i, i + 2)?;
        }
    }
    Ok(())
}

pub(crate) fn gemm(call: &Call<'_>) -> Result<Vec<Type>> {
    let (a, b) = (call.ranked(0, 2)?, call.ranked(1, 2)?);
    call.same_dtype(0, 1)?;
    let sides = |ty: &Type, transposed: bool| -> (Dim, Dim) {
        let (rows, columns) = (ty.shape[0].clone(), ty.shape[1].clone());
        if transposed { (columns, rows) } else { (rows, columns) }
    };
    let (rows, left) = sides(a, call.flag("transA", false)?);
    let (right, columns) = sides(b, call.flag("transB", false)?);
    if !same(&left, &right) {
        return Err(call.error(format!("sizes {left} and {right} differ in {a} and {b}")));
    }
    let ty = Type::new(a.dtype, [rows, columns]);
    if call.optional(2).is_some() {
        call.same_dtype(0, 2)?;
        broadcasts_to(call, 2, &ty.shape)?;
    }
    Ok(vec![ty])
}
