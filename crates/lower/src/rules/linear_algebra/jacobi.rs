//! Jacobi rotations of all rows at once, in pairs.
//!
//! Row i of the upper half is paired with row i of the lower half. Between steps, the rows move
//! like the players of a round-robin tournament. A sweep of n - 1 steps pairs each row with every
//! other one and restores their order.

use std::slice::from_ref;

use onnx::{Attrs, ValueId, attrs};
use tensor::{Dim, bounds};

use crate::formula::formulas;
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result};

/// The maximum number of sweeps. Five to ten are usually enough; more than this would not improve
/// precision.
pub(crate) const SWEEPS: Dim = Dim::Known(40);

/// The pairing of an even number of rows.
#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    /// The number of pairs.
    pub(crate) half: Dim,
    /// For each position, the row that moves there after a step.
    pub(crate) own: ValueId,
    /// For each position, the row that was paired with that row.
    pub(crate) other: ValueId,
}

/// Rotations (…, n, 1). With the tangent of half the angle, τ, and the sine, s, rows x and y become
/// x - s(y + τx) and y + s(x - τy): the smaller the angle, the smaller the rounding error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotations {
    /// The factor of complex rows before the rotation.
    phase: Option<Parts>,
    /// ∓s, in the order of the rows after the step.
    sine: Parts,
    /// ±τ, in the order of the rows after the step.
    half: Parts,
}

impl Pairs {
    /// Pairs `n` rows, plus one more if `n` is odd.
    #[track_caller]
    pub(crate) fn new(cx: &mut Context<'_>, n: &Dim) -> Result<Self> {
        let half = bounds::ceil_div(n.clone(), 2);
        if let Some(known) = half.as_known() {
            let rows = 2 * known;
            let own = order(rows);
            let other: Vec<i64> = own.iter().map(|i| (i + known) % rows).collect();
            return Ok(Self { half, own: cx.i64s(&own), other: cx.i64s(&other) });
        }
        let own = symbolic_order(cx, &half)?;
        let (shift, rows) = (cx.dims(from_ref(&half))?, cx.dims(&[half.clone() + half.clone()])?);
        let other = cx.op("Add", &[own, shift], Attrs::new())?;
        let other = cx.op("Mod", &[other, rows], Attrs::new())?;
        Ok(Self { half, own, other })
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> Dim {
        self.half.clone() + self.half.clone()
    }

    /// Returns the upper and the lower half of rows.
    #[track_caller]
    pub(crate) fn halves(&self, cx: &mut Context<'_>, x: Parts) -> Result<(Parts, Parts)> {
        let upper = x.slice(cx, -2, &Dim::Known(0), &self.half)?;
        Ok((upper, x.slice(cx, -2, &self.half, &self.rows())?))
    }

    /// Returns the rotations that diagonalise the Hermitian matrices [[a, c], [c̄, b]] when applied
    /// to their columns, and their conjugates to the rows. `a` and `b` are real. All operands are
    /// (…, n/2, 1).
    #[track_caller]
    pub(crate) fn rotations(
        &self,
        cx: &mut Context<'_>,
        a: ValueId,
        b: ValueId,
        c: Parts,
    ) -> Result<Rotations> {
        // For complex numbers, the second column first removes the phase of c.
        let (c, phase) = modulus_and_phase(cx, c)?;
        let [sine, half] = formulas(cx, [a, b, c], |[a, b, c]| {
            let zeta = (b - a) / (c + c);
            // The smaller root of t² + 2ζt = 1, whose angle is at most an eighth of a turn.
            let root = (zeta.squared() + 1.0).sqrt();
            let tangent = (zeta.abs() + root).reciprocal();
            let minus = -tangent;
            let tangent = zeta.less(0.0).select(minus, tangent);
            let tangent = c.equals(0.0).select(0.0, tangent);
            let root = (tangent.squared() + 1.0).sqrt();
            [tangent / root, tangent / (root + 1.0)]
        })?;
        let (sine, half) = (Parts::Real(sine), Parts::Real(half));

        let sine = sine.neg(cx)?.concat(cx, -2, sine)?.take(cx, -2, self.own)?;
        let minus = half.neg(cx)?;
        let half = half.concat(cx, -2, minus)?.take(cx, -2, self.own)?;
        let phase = match phase {
            None => None,
            Some(phase) => {
                let (dtype, shape) = (cx.dtype(c), cx.shape(c).to_vec());
                let one = cx.full(dtype, 1.0, &shape)?;
                Some(Parts::Real(one).concat(cx, -2, phase)?)
            }
        };
        Ok(Rotations { phase, sine, half })
    }

    /// Rotates rows (…, n, m), and moves them to their positions in the next step.
    #[track_caller]
    pub(crate) fn rotate(&self, cx: &mut Context<'_>, rows: Parts, by: Rotations) -> Result<Parts> {
        let rows = match by.phase {
            Some(phase) => rows.mul(cx, phase)?,
            None => rows,
        };
        let (own, other) = (rows.take(cx, -2, self.own)?, rows.take(cx, -2, self.other)?);
        let turned = own.mul(cx, by.half)?;
        let turned = other.add(cx, turned)?.mul(cx, by.sine)?;
        own.add(cx, turned)
    }
}

impl Rotations {
    #[track_caller]
    pub(crate) fn conj(self, cx: &mut Context<'_>) -> Result<Self> {
        let phase = self.phase.map(|phase| phase.conj(cx)).transpose()?;
        Ok(Self { phase, ..self })
    }
}

/// Returns |c| and c̄ / |c|. A real c is returned unchanged, and needs no phase.
#[track_caller]
fn modulus_and_phase(cx: &mut Context<'_>, c: Parts) -> Result<(ValueId, Option<Parts>)> {
    if c.im().is_none() {
        return Ok((c.re(), None));
    }
    let modulus = c.modulus(cx)?;
    let (zero, one) = (cx.scalar_like(c.re(), 0.0)?, cx.scalar_like(c.re(), 1.0)?);
    let some = cx.op("Greater", &[modulus, zero], Attrs::new())?;
    let divisor = cx.op("Where", &[some, modulus, one], Attrs::new())?;
    let phase = c.conj(cx)?.over(cx, divisor)?.or(cx, some, Parts::Real(one))?;
    Ok((modulus, Some(phase)))
}

/// Returns the source of the row at each position: the first row stays, all others rotate.
fn order(rows: i64) -> Vec<i64> {
    let half = rows / 2;
    if half < 2 {
        return (0..rows).collect();
    }
    let upper = [0, half].into_iter().chain(1..half - 1);
    upper.chain(half + 1..rows).chain([half - 1]).collect()
}

/// Computes [`order`] for twice `half` rows, if that number is symbolic.
#[track_caller]
fn symbolic_order(cx: &mut Context<'_>, half: &Dim) -> Result<ValueId> {
    let one = Dim::Known(1);
    let last = half.clone() + half.clone() - one.clone();
    let places = indices::count(cx, &(last.clone() + one.clone()))?;
    let [half, before_half, last] =
        [half.clone(), half.clone() - one, last].map(|size| cx.dims(&[size]));
    let sizes = [places, half?, before_half?, last?];
    let [order] = formulas(cx, sizes, |[place, half, before_half, last]| {
        let moved = place.less(half).select(place - 1.0, place + 1.0);
        let moved = place.equals(last).select(before_half, moved);
        // With two rows, position 1 is also the last one and stays, so this case overrides that of
        // the last position.
        let moved = place.equals(1.0).select(half, moved);
        [place.equals(0.0).select(place, moved)]
    })?;
    Ok(order)
}

/// Sorts the `values` (…, n, 1) of the rows, and returns them with their order.
#[track_caller]
pub(crate) fn sorted(
    cx: &mut Context<'_>,
    values: ValueId,
    rows: &Dim,
    largest: bool,
) -> Result<(ValueId, ValueId)> {
    let count = cx.dims(from_ref(rows))?;
    let found = cx.op_many("TopK", &[values, count], attrs! { axis: -2, largest: largest }, 2)?;
    Ok((found[0], found[1]))
}

/// Reorders rows (…, n, m) by the order (…, n, 1).
#[track_caller]
pub(crate) fn reordered(cx: &mut Context<'_>, rows: Parts, order: ValueId) -> Result<Parts> {
    let shape = cx.shape(rows.re()).to_vec();
    let order = cx.expand(order, &shape)?;
    rows.pick(cx, -2, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_pairs_all_rows_once_and_restores_the_order() {
        for rows in [2, 4, 6, 10, 16] {
            let step = order(rows);
            let mut at: Vec<i64> = (0..rows).collect();
            let mut met = std::collections::BTreeSet::new();
            for _ in 0..rows - 1 {
                let half = at.len() / 2;
                for i in 0..half {
                    let (a, b) = (at[i], at[i + half]);
                    assert!(met.insert((a.min(b), a.max(b))), "{a} and {b} met twice");
                }
                at = step.iter().map(|&i| at[usize::try_from(i).unwrap()]).collect();
            }
            assert_eq!(at, (0..rows).collect::<Vec<_>>());
        }
    }
}
