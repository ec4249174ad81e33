//! `Reshape`, and the operators that trade channels for space.

use tensor::{Dim, Shape, Type};

use super::call::{Call, text};
use crate::Result;
use tensor::bounds::same;
use tensor::division::{exact_div, exact_div_products, product};

pub(crate) fn reshape(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let wanted = call.vector(1)?;
    let allow_zero = call.flag("allowzero", false)?;
    let mut shape = Shape::with_capacity(wanted.len());
    let mut open = None;
    for (i, dim) in wanted.into_iter().enumerate() {
        shape.push(match dim {
            Dim::Known(0) if !allow_zero => match ty.shape.get(i) {
                Some(kept) => kept.clone(),
                None => return Err(call.error(format!("{ty} has no axis {i} to keep"))),
            },
            Dim::Known(-1) if open.is_none() => {
                open = Some(i);
                Dim::Known(1)
            }
            Dim::Known(-1) => return Err(call.error("-1 occurs twice")),
            Dim::Known(..0) => return Err(call.error(format!("{dim} is not a size"))),
            other => other,
        });
    }
    match open {
        Some(at) => shape[at] = solve(call, ty, &shape, at)?,
        // Where this cannot be decided, the requested shape is trusted.
        None if !may_hold_as_many(&ty.shape, &shape) => {
            return Err(call.error(format!("{ty} cannot have the shape {}", text(&shape))));
        }
        None => {}
    }
    Ok(vec![Type::new(ty.dtype, shape)])
}

/// Returns the number of elements, if all sizes are numbers and the product does not overflow.
fn static_count(shape: &[Dim]) -> Option<i64> {
    shape.iter().try_fold(1i64, |count, dim| count.checked_mul(dim.as_known()?))
}

/// Returns the size at `at`, where `shape` contains one as a placeholder.
fn solve(call: &Call<'_>, ty: &Type, shape: &[Dim], at: usize) -> Result<Dim> {
    let quotient = match (static_count(&ty.shape), static_count(shape)) {
        (Some(count), Some(rest)) => exact_div(&Dim::Known(count), &Dim::Known(rest)),
        _ => exact_div_products(&ty.shape, shape),
    };
    quotient.ok_or_else(|| {
        let mut others = shape.to_vec();
        others[at] = Dim::Known(-1);
        call.error(format!("{ty} cannot have the shape {}", text(&others)))
    })
}

/// Returns `true` if two shapes may have the same number of elements. If a size is not a
/// polynomial, equality cannot be decided, and the result is `true`.
pub fn may_hold_as_many(one: &[Dim], other: &[Dim]) -> bool {
    match (static_count(one), static_count(other)) {
        (Some(a), Some(b)) => a == b,
        _ => {
            let (a, b) = (product(one), product(other));
            same(&a, &b) || !is_polynomial(&a) || !is_polynomial(&b)
        }
    }
}

fn is_polynomial(dim: &Dim) -> bool {
    let is_var = |atom: &tensor::Atom| matches!(atom, tensor::Atom::Var(_));
    dim.terms().iter().all(|(_, atoms)| atoms.iter().all(|(atom, _)| is_var(atom)))
}

fn block_size(call: &Call<'_>) -> Result<i64> {
    let size = call.required_int("blocksize")?;
    if size < 1 {
        return Err(call.error(format!("`blocksize` is {size}")));
    }
    match call.string("mode", "DCR")? {
        "DCR" | "CRD" => Ok(size),
        other => Err(call.error(format!("`mode` is `{other}`, not DCR or CRD"))),
    }
}

fn divide(call: &Call<'_>, size: &Dim, by: i64) -> Result<Dim> {
    let quotient = exact_div(size, &Dim::Known(by));
    quotient.ok_or_else(|| call.error(format!("{size} is not a multiple of {by}")))
}

pub(crate) fn depth_to_space(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked(0, 4)?;
    let size = block_size(call)?;
    let mut shape = ty.shape.clone();
    shape[1] = divide(call, &ty.shape[1], size.saturating_mul(size))?;
    for axis in [2, 3] {
        shape[axis] = ty.shape[axis].clone() * Dim::Known(size);
    }
    Ok(vec![Type::new(ty.dtype, shape)])
}

pub(crate) fn space_to_depth(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked(0, 4)?;
    let size = block_size(call)?;
    let mut shape = ty.shape.clone();
    shape[1] = ty.shape[1].clone() * Dim::Known(size.saturating_mul(size));
    for axis in [2, 3] {
        shape[axis] = divide(call, &ty.shape[axis], size)?;
    }
    Ok(vec![Type::new(ty.dtype, shape)])
}
