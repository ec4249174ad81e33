//! dot_general[dimension_numbers](x, y) → MatMul of (batch…, free, contracted) and (batch…,
//! contracted, free), with Transpose and Reshape where the axes are in another order; Mul and
//! ReduceSum for pairwise products of rows, which avoid one small product per row

use onnx::{Attrs, ValueId, attrs};
use tensor::division::product;
use tensor::{DType, Dim};

use crate::{Context, Result};

type Axes = Vec<usize>;

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let ((left_sum, right_sum), (left_batch, right_batch)): ((Axes, Axes), (Axes, Axes)) =
        cx.param("dimension_numbers")?;
    let dtype = cx.out(0).dtype;
    let wide = computed_in(cx.dtype(x[0]), cx.dtype(x[1]), dtype);
    let (left, right) = (cx.cast(x[0], wide)?, cx.cast(x[1], wide)?);
    let left_free = free_axes(cx.rank(left), &left_sum, &left_batch);
    let right_free = free_axes(cx.rank(right), &right_sum, &right_batch);
    let is_wide = matches!(wide, DType::F32 | DType::F64);
    if is_wide && left_free.is_empty() && right_free.is_empty() && !left_batch.is_empty() {
        let axes: Vec<i64> = (left_batch.len()..cx.rank(left)).map(|axis| axis as i64).collect();
        let left = cx.transpose(left, &[left_batch, left_sum].concat())?;
        let right = cx.transpose(right, &[right_batch, right_sum].concat())?;
        let products = cx.op("Mul", &[left, right], Attrs::new())?;
        if axes.is_empty() {
            return Ok(vec![cx.cast(products, dtype)?]);
        }
        let axes = cx.i64s(&axes);
        let sum = cx.op("ReduceSum", &[products, axes], attrs! { keepdims: 0 })?;
        return Ok(vec![cx.cast(sum, dtype)?]);
    }
    let batch = sizes(cx, left, &left_batch);
    let rows = sizes(cx, left, &left_free);
    let columns = sizes(cx, right, &right_free);
    let summed = product(&sizes(cx, left, &left_sum));
    let shape = [batch.as_slice(), &rows, &columns].concat();

    // MatMul accepts several row axes if the other side is a plain matrix.
    let stacked = batch.is_empty() && rows.len() > 1 && right_sum.len() == 1;
    let rows = if stacked { rows } else { vec![product(&rows)] };
    let columns = product(&columns);
    let left = cx.transpose(left, &[left_batch, left_free, left_sum].concat())?;
    let left =
        cx.reshape(left, &[batch.as_slice(), &rows, std::slice::from_ref(&summed)].concat())?;
    let right = cx.transpose(right, &[right_batch, right_sum, right_free].concat())?;
    let right = cx.reshape(right, &[batch.as_slice(), &[summed, columns]].concat())?;
    let result = cx.op("MatMul", &[left, right], Attrs::new())?;
    let result = cx.reshape(result, &shape)?;
    Ok(vec![cx.cast(result, dtype)?])
}

/// Returns the type to compute in: the type of the result, unless both operands have a wider one.
/// Booleans are counted: any product that is true makes the sum true.
fn computed_in(left: DType, right: DType, result: DType) -> DType {
    let small = |dtype: DType| dtype.is_float() && dtype.bits() <= 8;
    match result {
        DType::Bool => DType::I32,
        _ if left == right && left.bits() > result.bits() => left,
        _ if small(result) && small(left) && small(right) => DType::F32,
        _ => result,
    }
}

fn free_axes(rank: usize, summed: &[usize], batch: &[usize]) -> Axes {
    (0..rank).filter(|axis| !summed.contains(axis) && !batch.contains(axis)).collect()
}

fn sizes(cx: &Context<'_>, value: ValueId, axes: &[usize]) -> Vec<Dim> {
    axes.iter().map(|&axis| cx.shape(value)[axis].clone()).collect()
}
