//! numpy's broadcasting, with symbolic sizes.

use tensor::{Dim, Shape};

use super::call::{Call, text};
use crate::Result;
use tensor::bounds::same;

/// Returns the shape that two shapes broadcast to.
pub(super) fn broadcast(call: &Call<'_>, a: &[Dim], b: &[Dim]) -> Result<Shape> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut shape = long.to_vec();
    for (i, b) in (long.len() - short.len()..).zip(short) {
        let a = &shape[i];
        let Some(size) = one(a, b) else {
            let shapes = format!("{} and {}", text(&shape), text(short));
            return Err(call.error(format!("sizes {a} and {b} do not broadcast in {shapes}")));
        };
        shape[i] = size.clone();
    }
    Ok(shape)
}

/// Returns the size that two sizes broadcast to. A symbolic size opposite a number must be one or
/// that number.
fn one<'d>(a: &'d Dim, b: &'d Dim) -> Option<&'d Dim> {
    match (a, b) {
        _ if a == b => Some(a),
        (_, Dim::Known(1)) => Some(a),
        (Dim::Known(1), _) => Some(b),
        (Dim::Known(_), Dim::Known(_)) => None,
        (Dim::Known(_), Dim::Symbolic(_)) => Some(a),
        (Dim::Symbolic(_), Dim::Known(_)) => Some(b),
        (Dim::Symbolic(_), Dim::Symbolic(_)) => same(a, b).then_some(a),
    }
}

/// Checks that the operand at `index` broadcasts to `target` without enlarging it.
pub(super) fn broadcasts_to(call: &Call<'_>, index: usize, target: &[Dim]) -> Result<()> {
    let ty = call.ty(index)?;
    let fits = |(a, b): (&Dim, &Dim)| one(a, b).is_some_and(|size| same(size, a));
    match target.len().checked_sub(ty.rank()) {
        Some(offset) if target[offset..].iter().zip(&ty.shape).all(fits) => Ok(()),
        _ => {
            let target = text(target);
            Err(call.error(format!("input {index} is {ty}, which does not broadcast to {target}")))
        }
    }
}
