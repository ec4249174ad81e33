//! numpy's broadcasting, with symbolic sizes.

use tensor::{Dim, Shape};

use super::call::{Call, text};
use crate::Result;
use tensor::bounds::same;

/// Returns the shape that two shapes broadcast to.
pub(super) fn broadcast(call: &Call<'_>, a: &[Dim], b: &[Dim]) -> Result<Shape> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut shape = long.to_vec();
    broadcast_into(call, &mut shape, short)?;
    Ok(shape)
}

/// Broadcasts `shape`, the longer one, with `other`.
fn broadcast_into(call: &Call<'_>, shape: &mut [Dim], other: &[Dim]) -> Result<()> {
    let offset = shape.len() - other.len();
    for i in 0..other.len() {
        match one(&shape[offset + i], &other[i]) {
            Some(Side::Left) => {}
            Some(Side::Right) => shape[offset + i] = other[i].clone(),
            None => {
                let (a, b) = (&shape[offset + i], &other[i]);
                let shapes = format!("{} and {}", text(shape), text(other));
                return Err(call.error(format!("sizes {a} and {b} do not broadcast in {shapes}")));
            }
        }
    }
    Ok(())
}

enum Side {
    Left,
    Right,
}

/// Returns the side whose size the result has. A symbolic size opposite a number must be one or
/// that number.
fn one(a: &Dim, b: &Dim) -> Option<Side> {
    match (a, b) {
        _ if a == b => Some(Side::Left),
        (_, Dim::Known(1)) => Some(Side::Left),
        (Dim::Known(1), _) => Some(Side::Right),
        (Dim::Known(_), Dim::Known(_)) => None,
        (Dim::Known(_), Dim::Symbolic(_)) => Some(Side::Left),
        (Dim::Symbolic(_), Dim::Known(_)) => Some(Side::Right),
        (Dim::Symbolic(_), Dim::Symbolic(_)) => same(a, b).then_some(Side::Left),
    }
}

/// Checks that the operand at `index` broadcasts to `target` without enlarging it.
pub(super) fn broadcasts_to(call: &Call<'_>, index: usize, target: &[Dim]) -> Result<()> {
    let ty = call.ty(index)?;
    let fits = |(a, b): (&Dim, &Dim)| match one(a, b) {
        Some(Side::Left) => true,
        Some(Side::Right) => same(a, b),
        None => false,
    };
    let offset = target.len().checked_sub(ty.rank());
    match offset {
        Some(offset) if target[offset..].iter().zip(&ty.shape).all(fits) => Ok(()),
        _ => {
            let reason = format!("input {index} is {ty}, which does not broadcast to");
            Err(call.error(format!("{reason} {}", text(target))))
        }
    }
}
