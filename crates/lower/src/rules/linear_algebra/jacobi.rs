//! Jacobi rotations of all rows at once, in pairs.
//!
//! Row i of the upper half is paired with row i of the lower half. Between rounds the rows move as
//! the players of a round-robin tournament do, so that a sweep of n - 1 rounds pairs each row with
//! every other one and leaves all where they were.

use onnx::{Attrs, ValueId, attrs};
use tensor::Dim;

use crate::formula::formulas;
use crate::rules::Result;
use crate::{Context, Parts};

/// Sweeps after which no more precision is to be had; five to ten are usual.
pub(crate) const SWEEPS: u32 = 40;

/// The pairing of an even number of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs {
    /// How many rows there are.
    pub(crate) rows: i64,
    /// The row that each place is given after a round.
    pub(crate) own: ValueId,
    /// The row that was paired with it.
    pub(crate) other: ValueId,
}

/// Rotations (…, n, 1). By the tangent of half the angle, τ, and the sine, s, rows x and y become
/// x - s(y + τx) and y + s(x - τy): the smaller the angle, the smaller the rounding error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotations {
    /// What complex rows are multiplied by before.
    phase: Option<Parts>,
    /// ∓s, in the order that the rows have after the round.
    sine: Parts,
    /// ±τ, in the order that the rows have after the round.
    half: Parts,
}

impl Pairs {
    pub(crate) fn new(cx: &mut Context<'_>, rows: i64) -> Self {
        let own = order(rows);
        let other: Vec<i64> = own.iter().map(|i| (i + rows / 2) % rows).collect();
        Self { rows, own: cx.i64s(&own), other: cx.i64s(&other) }
    }

    /// The upper and the lower half of rows.
    #[track_caller]
    pub(crate) fn halves(&self, cx: &mut Context<'_>, x: Parts) -> Result<(Parts, Parts)> {
        let (half, rows) = ((self.rows / 2).into(), self.rows.into());
        Ok((x.slice(cx, -2, &Dim::Known(0), &half)?, x.slice(cx, -2, &half, &rows)?))
    }

    /// The rotations that make the Hermitian matrices [[a, c], [c̄, b]] diagonal when applied to
    /// their columns, and their conjugates to the rows; `a` and `b` are real. All are (…, n/2, 1).
    #[track_caller]
    pub(crate) fn rotations(
        &self,
        cx: &mut Context<'_>,
        a: ValueId,
        b: ValueId,
        c: Parts,
    ) -> Result<Rotations> {
        // For complex numbers, the second column first takes the phase away from c.
        let (c, phase) = modulus_and_phase(cx, c)?;
        let [sine, half] = formulas(cx, [a, b, c], |[a, b, c]| {
            let zeta = (b - a) / (c + c);
            // The smaller root of t² + 2ζt = 1: the angle is at most an eighth of a turn.
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

    /// Rows (…, n, m) rotated, and moved on to the places of the next round.
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

/// |c|, and c̄ / |c|; of real numbers c itself, which needs no phase.
#[track_caller]
fn modulus_and_phase(cx: &mut Context<'_>, c: Parts) -> Result<(ValueId, Option<Parts>)> {
    if c.im().is_none() {
        return Ok((c.re(), None));
    }
    let square = c.square(cx)?;
    let modulus = cx.op("Sqrt", &[square], Attrs::new())?;
    let (zero, one) = (cx.scalar_like(c.re(), 0.0)?, cx.scalar_like(c.re(), 1.0)?);
    let some = cx.op("Greater", &[modulus, zero], Attrs::new())?;
    let divisor = cx.op("Where", &[some, modulus, one], Attrs::new())?;
    let phase = c.conj(cx)?.over(cx, divisor)?.or(cx, some, Parts::Real(one))?;
    Ok((modulus, Some(phase)))
}

/// Where the row at each place comes from: the first row stays, all others go round.
fn order(rows: i64) -> Vec<i64> {
    let half = rows / 2;
    if half < 2 {
        return (0..rows).collect();
    }
    let upper = [0, half].into_iter().chain(1..half - 1);
    upper.chain(half + 1..rows).chain([half - 1]).collect()
}

/// `values` (…, n, 1) of the rows in ascending or descending order, and the order.
#[track_caller]
pub(crate) fn sorted(
    cx: &mut Context<'_>,
    values: ValueId,
    rows: i64,
    largest: bool,
) -> Result<(ValueId, ValueId)> {
    let count = cx.i64s(&[rows]);
    let found = cx.op_many("TopK", &[values, count], attrs! { axis: -2, largest: largest }, 2)?;
    Ok((found[0], found[1]))
}

/// Rows (…, n, m) in the order (…, n, 1).
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
    fn a_sweep_pairs_everybody_once_and_restores_the_order() {
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
