//! Data-movement operators.

use tensor::{Dim, Shape, Type};

use super::broadcast::broadcast;
use super::call::{Call, Dims};
use crate::Result;
use tensor::bounds::{at_least, ceil_div, same};
use tensor::division::{exact_div, product};

pub(crate) fn concat(call: &Call<'_>) -> Result<Vec<Type>> {
    let first = call.ranked_from(0, 1)?;
    let axis = call.axis(call.required_int("axis")?, first.rank())?;
    let mut ty = first.clone();
    for i in 1..call.inputs.len() {
        call.same_dtype(0, i)?;
        let other = call.ranked(i, first.rank())?;
        for (at, dim) in other.shape.iter().enumerate() {
            if at == axis {
                let sum = std::mem::replace(&mut ty.shape[at], Dim::Known(0)) + dim.clone();
                ty.shape[at] = sum;
            } else if !same(&ty.shape[at], dim) {
                return Err(call.error(format!("{first} and {other} differ on axis {at}")));
            }
        }
    }
    Ok(vec![ty])
}

/// Returns the elements of an operand as sizes. Fails if one is negative.
pub(super) fn sizes(call: &Call<'_>, index: usize) -> Result<Dims> {
    let dims = call.vector(index)?;
    match dims.iter().find(|dim| dim.as_known().is_some_and(|n| n < 0)) {
        Some(dim) => Err(call.error(format!("input {index} holds the size {dim}"))),
        None => Ok(dims),
    }
}

pub(crate) fn expand(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let shape = sizes(call, 1)?;
    Ok(vec![Type::new(ty.dtype, broadcast(call, &ty.shape, &shape)?)])
}

pub(crate) fn flatten(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    // The axis may be one past the last.
    let axis = match call.int("axis", 1)? {
        axis if axis == ty.rank() as i64 => ty.rank(),
        axis => call.axis(axis, ty.rank())?,
    };
    let (left, right) = ty.shape.split_at(axis);
    Ok(vec![Type::new(ty.dtype, [product(left), product(right)])])
}

pub(crate) fn pad(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let pads = call.vector(1)?;
    if call.optional(2).is_some() {
        call.same_dtype(0, 2)?;
        call.is_single(2)?;
    }
    let axes = match call.optional(3) {
        Some(_) => call.axes(&call.numbers(3)?, ty.rank())?,
        None => (0..ty.rank()).collect(),
    };
    if pads.len() != 2 * axes.len() {
        let reason = format!("there are {} pads for {} axes", pads.len(), axes.len());
        return Err(call.error(reason));
    }
    let mode = call.string("mode", "constant")?;
    if !matches!(mode, "constant" | "edge" | "reflect" | "wrap") {
        return Err(call.error(format!("the mode `{mode}` does not exist")));
    }
    let mut shape = ty.shape.clone();
    for (i, &axis) in axes.iter().enumerate() {
        let sum = pads[i].clone() + pads[i + axes.len()].clone();
        shape[axis] = ty.shape[axis].clone() + sum;
        if shape[axis].as_known().is_some_and(|n| n < 0) {
            return Err(call.error(format!("axis {axis} of {ty} gets the size {}", shape[axis])));
        }
    }
    Ok(vec![Type::new(ty.dtype, shape)])
}

pub(crate) fn split(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let axis = call.axis_attr(0, ty.rank())?;
    let whole = &ty.shape[axis];
    let parts = match (call.optional(1), call.attr("num_outputs")) {
        (Some(_), None) => given_parts(call, whole)?,
        (None, Some(_)) => equal_parts(call, whole)?,
        _ => return Err(call.error("there must be either input 1 or `num_outputs`")),
    };
    if parts.len() != call.count {
        let reason = format!("there are {} parts for {} results", parts.len(), call.count);
        return Err(call.error(reason));
    }
    let part = |size| {
        let mut part = ty.clone();
        part.shape[axis] = size;
        part
    };
    Ok(parts.into_iter().map(part).collect())
}

fn given_parts(call: &Call<'_>, whole: &Dim) -> Result<Dims> {
    let parts = sizes(call, 1)?;
    let sum = parts.iter().cloned().fold(Dim::Known(0), |sum, part| sum + part);
    if !same(&sum, whole) {
        return Err(call.error(format!("the parts sum to {sum}, the axis has {whole}")));
    }
    Ok(parts)
}

fn equal_parts(call: &Call<'_>, whole: &Dim) -> Result<Dims> {
    let count = call.required_int("num_outputs")?;
    if count < 1 || count != call.count as i64 {
        let reason = format!("`num_outputs` is {count} and there are {} results", call.count);
        return Err(call.error(reason));
    }
    let part = exact_div(whole, &Dim::Known(count));
    let part = part.unwrap_or_else(|| ceil_div(whole.clone(), count));
    let last = whole.clone() - Dim::Known(count - 1) * part.clone();
    if !at_least(&last, 0) {
        return Err(call.error(format!("{whole} cannot be split into {count} parts")));
    }
    let mut parts = Dims::from_elem(part, call.count);
    if let Some(end) = parts.last_mut() {
        *end = last;
    }
    Ok(parts)
}

pub(crate) fn squeeze(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    call.not_an_attr("axes")?;
    let mut shape = Shape::with_capacity(ty.rank());
    if call.optional(1).is_some() {
        let axes = call.axes(&call.numbers(1)?, ty.rank())?;
        for (i, dim) in ty.shape.iter().enumerate() {
            if !axes.contains(&i) {
                shape.push(dim.clone());
            } else if *dim != Dim::Known(1) {
                return Err(call.error(format!("axis {i} of {ty} is {dim}, not 1")));
            }
        }
    } else {
        for (i, dim) in ty.shape.iter().enumerate() {
            match dim {
                Dim::Known(1) => {}
                Dim::Known(_) => shape.push(dim.clone()),
                Dim::Symbolic(_) if at_least(dim, 2) => shape.push(dim.clone()),
                Dim::Symbolic(_) => {
                    let reason = format!("cannot tell whether axis {i} of {ty} has size 1");
                    return Err(call.error(reason));
                }
            }
        }
    }
    Ok(vec![Type::new(ty.dtype, shape)])
}

pub(crate) fn unsqueeze(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let axes = call.numbers(1)?;
    let mut axes = call.axes(&axes, ty.rank() + axes.len())?;
    axes.sort_unstable();
    let mut shape = ty.shape.clone();
    axes.into_iter().for_each(|axis| shape.insert(axis, Dim::Known(1)));
    Ok(vec![Type::new(ty.dtype, shape)])
}

pub(crate) fn tile(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let repeats = sizes(call, 1)?;
    if repeats.len() != ty.rank() {
        return Err(call.error(format!("there are {} repeats for {ty}", repeats.len())));
    }
    let dims = ty.shape.iter().zip(repeats).map(|(dim, times)| dim.clone() * times);
    Ok(vec![Type::new(ty.dtype, dims.collect::<Shape>())])
}

pub(crate) fn transpose(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let shape: Shape = match call.ints_of("perm", ty.rank())? {
        Some(perm) => {
            let axes = call.axes(perm, ty.rank())?;
            axes.iter().map(|&axis| ty.shape[axis].clone()).collect()
        }
        None => ty.shape.iter().rev().cloned().collect(),
    };
    Ok(vec![Type::new(ty.dtype, shape)])
}

pub(crate) fn reverse_sequence(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked_from(0, 2)?;
    let (batch, time) = (call.int("batch_axis", 1)?, call.int("time_axis", 0)?);
    if !matches!((batch, time), (0, 1) | (1, 0)) {
        return Err(call.error("`batch_axis` and `time_axis` must be 0 and 1 in some order"));
    }
    let (batch, lengths) = (usize::from(batch == 1), call.ranked(1, 1)?);
    if !same(&lengths.shape[0], &ty.shape[batch]) {
        return Err(call.error(format!("input 1 is {lengths} for the batch axis of {ty}")));
    }
    Ok(vec![ty.clone()])
}
