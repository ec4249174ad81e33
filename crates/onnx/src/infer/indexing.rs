//! Operators that read or write elements at computed indices.

use tensor::{DType, Dim, Type};

use super::call::{Call, text};
use crate::{Error, Result};
use tensor::bounds::same_shape;

pub(crate) fn gather(call: &Call<'_>) -> Result<Vec<Type>> {
    let (data, indices) = (call.ranked_from(0, 1)?, call.ty(1)?);
    call.is_index(1)?;
    let axis = call.axis_attr(0, data.rank())?;
    let shape = [&data.shape[..axis], &indices.shape, &data.shape[axis + 1..]].concat();
    Ok(vec![Type::new(data.dtype, shape)])
}

/// Checks that indices have the rank of the data, and are not larger except along `axis`.
fn check_elements(call: &Call<'_>) -> Result<()> {
    let data = call.ranked_from(0, 1)?;
    let indices = call.ranked(1, data.rank())?;
    call.is_index(1)?;
    let axis = call.axis_attr(0, data.rank())?;
    for (i, (a, b)) in data.shape.iter().zip(&indices.shape).enumerate() {
        if let (Dim::Known(a), Dim::Known(b)) = (a, b)
            && b > a
            && i != axis
        {
            return Err(call.error(format!("indices are {indices}, data are {data}")));
        }
    }
    Ok(())
}

pub(crate) fn gather_elements(call: &Call<'_>) -> Result<Vec<Type>> {
    check_elements(call)?;
    Ok(vec![Type::new(call.ty(0)?.dtype, call.ty(1)?.shape.clone())])
}

fn check_reduction(call: &Call<'_>) -> Result<()> {
    match call.string("reduction", "none")? {
        "none" | "add" | "mul" | "max" | "min" => Ok(()),
        other => Err(call.error(format!("the reduction `{other}` does not exist"))),
    }
}

fn wrong_updates(call: &Call<'_>, updates: &Type, expected: &[Dim]) -> Error {
    call.error(format!("updates are {updates}, but their shape must be {}", text(expected)))
}

pub(crate) fn scatter_elements(call: &Call<'_>) -> Result<Vec<Type>> {
    check_elements(call)?;
    check_reduction(call)?;
    call.same_dtype(0, 2)?;
    let (indices, updates) = (call.ty(1)?, call.ty(2)?);
    if !same_shape(&indices.shape, &updates.shape) {
        return Err(wrong_updates(call, updates, &indices.shape));
    }
    Ok(vec![call.ty(0)?.clone()])
}

/// Returns the shape of the indices without its last axis, and the number of axes that an index
/// addresses.
fn index_tuples<'a>(call: &Call<'a>, batch: usize) -> Result<(&'a [Dim], usize)> {
    let (data, indices) = (call.ranked_from(0, 1)?, call.ranked_from(1, 1)?);
    call.dtype_is(1, DType::I64)?;
    let (last, tuples) = match indices.shape.split_last() {
        Some((Dim::Known(last), tuples)) => (usize::try_from(*last).unwrap_or(0), tuples),
        _ => return Err(call.error(format!("the last size of {indices} must be a number"))),
    };
    if last == 0 || last + batch > data.rank() {
        let reason = format!("indices of {last} numbers do not fit {data}");
        return Err(call.error(reason));
    }
    Ok((tuples, last))
}

pub(crate) fn gather_nd(call: &Call<'_>) -> Result<Vec<Type>> {
    let (data, indices) = (call.ty(0)?, call.ty(1)?);
    let batch = call.int("batch_dims", 0)?;
    let least = data.rank().min(indices.rank());
    let batch = match usize::try_from(batch) {
        Ok(batch) if batch < least => batch,
        _ => return Err(call.error(format!("`batch_dims` is {batch} for {data}, {indices}"))),
    };
    let (tuples, last) = index_tuples(call, batch)?;
    if !same_shape(&data.shape[..batch], &tuples[..batch]) {
        return Err(call.error(format!("{data} and {indices} differ on batch axes")));
    }
    Ok(vec![Type::new(data.dtype, [tuples, &data.shape[batch + last..]].concat())])
}

pub(crate) fn scatter_nd(call: &Call<'_>) -> Result<Vec<Type>> {
    let (data, updates) = (call.ty(0)?, call.ty(2)?);
    check_reduction(call)?;
    call.same_dtype(0, 2)?;
    let (tuples, last) = index_tuples(call, 0)?;
    let slice = &data.shape[last..];
    let fits = updates.rank() == tuples.len() + slice.len()
        && same_shape(&updates.shape[..tuples.len()], tuples)
        && same_shape(&updates.shape[tuples.len()..], slice);
    if !fits {
        return Err(wrong_updates(call, updates, &[tuples, slice].concat()));
    }
    Ok(vec![data.clone()])
}

/// Infers the type of `TensorScatter`. It replaces consecutive elements along one axis of a buffer,
/// from a different start for each example of the batch.
pub(crate) fn tensor_scatter(call: &Call<'_>) -> Result<Vec<Type>> {
    let data = call.ranked_from(0, 2)?;
    let updates = call.ranked(1, data.rank())?;
    call.same_dtype(0, 1)?;
    let axis = call.axis_attr(-2, data.rank())?;
    if axis == 0 {
        return Err(call.error("the first axis is that of the batch"));
    }
    match call.string("mode", "linear")? {
        "linear" | "circular" => {}
        other => return Err(call.error(format!("the mode `{other}` does not exist"))),
    }
    let mut expected = data.shape.clone();
    expected[axis] = updates.shape[axis].clone();
    if !same_shape(&updates.shape, &expected) {
        return Err(wrong_updates(call, updates, &expected));
    }
    if let (Dim::Known(length), Dim::Known(new)) = (&data.shape[axis], &updates.shape[axis])
        && new > length
    {
        return Err(call.error(format!("{updates} is longer than {data}")));
    }
    if call.optional(2).is_some() {
        call.dtype_is(2, DType::I64)?;
        let starts = call.ranked(2, 1)?;
        if !same_shape(&starts.shape, &data.shape[..1]) {
            return Err(call.error(format!("input 2 is {starts} for {data}")));
        }
    }
    Ok(vec![data.clone()])
}

pub(crate) fn one_hot(call: &Call<'_>) -> Result<Vec<Type>> {
    let (indices, _) = (call.ty(0)?, call.ranked(2, 1)?);
    let values = call.required(2, "must hold two values", |ty| ty.shape[0] == Dim::Known(2))?;
    let axis = call.axis_attr(-1, indices.rank() + 1)?;
    let depth = if call.ty(1)?.dtype.is_float() { float_depth(call)? } else { call.single(1)? };
    if depth.as_known().is_some_and(|depth| depth < 1) {
        return Err(call.error(format!("the depth is {depth}")));
    }
    let mut shape = indices.shape.clone();
    shape.insert(axis, depth);
    Ok(vec![Type::new(values.dtype, shape)])
}

/// Returns a depth that is given as a float, truncated to an integer.
#[expect(clippy::cast_possible_truncation, reason = "the specification truncates")]
fn float_depth(call: &Call<'_>) -> Result<Dim> {
    call.is_single(1)?;
    let depth = call.graph.tensor(call.value(1)?).and_then(tensor::Tensor::splat);
    let depth = depth.ok_or_else(|| call.error("input 1 must be known here"))?;
    Ok(Dim::Known(depth as i64))
}

pub(crate) fn top_k(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked_from(0, 1)?;
    let axis = call.axis_attr(-1, ty.rank())?;
    call.dtype_is(1, DType::I64)?;
    call.ranked(1, 1)?;
    let k = call.single(1)?;
    let fits = match (&k, &ty.shape[axis]) {
        (Dim::Known(k), Dim::Known(size)) => (0..=*size).contains(k),
        (Dim::Known(k), _) => *k >= 0,
        _ => true,
    };
    if !fits {
        return Err(call.error(format!("{k} elements of axis {axis} of {ty}")));
    }
    let mut values = ty.clone();
    values.shape[axis] = k;
    let indices = Type::new(DType::I64, values.shape.clone());
    Ok(vec![values, indices])
}

pub(crate) fn eye_like(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked(0, 2)?;
    Ok(vec![Type::new(call.dtype("dtype")?.unwrap_or(ty.dtype), ty.shape.clone())])
}

/// Refuses operators whose result has a size that depends on the data.
pub(crate) fn data_dependent(call: &Call<'_>) -> Result<Vec<Type>> {
    Err(call.error("the size of the result depends on the data"))
}
