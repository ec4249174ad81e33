//! igamma(a, x), igammac(a, x) → a power series near zero and a continued fraction beyond, each a
//! Loop until every element has converged

use onnx::ValueId;
use tensor::DType;

use super::lgamma::lgamma;
use crate::formula::{Num, formula, repeat, spread};
use crate::{Context, Result};

/// Lowers the lower function, which is 0 at x = 0 and grows to 1.
pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let operands = spread(cx, x)?;
    formula(cx, &operands, |[a, x]| {
        let (weight, vanishes) = weight(a, x);
        let outside = outside(a, x);
        let (at_zero, at_infinity) = (x.equals(0.0), x.equals(f64::INFINITY));
        let counts = !(outside | vanishes | at_zero | at_infinity);
        let far = x.at_least(1.0) & x.greater(a);
        let upper = fraction(a, x, counts & far) * weight;
        let lower = series(a, x, counts & !far) * weight / a;
        let result = far.select(1.0 - upper, lower);
        let result = at_infinity.select(1.0, at_zero.select(0.0, result));
        outside.select(f64::NAN, result)
    })
}

/// Lowers the upper function, which is 1 at x = 0 and falls to 0.
pub(crate) fn upper(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let operands = spread(cx, x)?;
    formula(cx, &operands, |[a, x]| {
        let (weight, vanishes) = weight(a, x);
        let outside = outside(a, x);
        let at_end = x.equals(f64::INFINITY) | a.equals(0.0);
        let counts = !(outside | vanishes | at_end);
        let near = x.less(1.0) | x.less(a);
        let upper = fraction(a, x, counts & !near) * weight;
        let lower = series(a, x, counts & near) * weight / a;
        let result = near.select(1.0 - lower, upper);
        let result = at_end.select(0.0, result);
        outside.select(f64::NAN, result)
    })
}

/// Returns the mask of operands that the functions are undefined for.
fn outside<'f>(a: Num<'f>, x: Num<'f>) -> Num<'f> {
    let origin = a.equals(0.0) & x.equals(0.0);
    x.less(0.0) | a.less(0.0) | origin | a.is_nan() | x.is_nan()
}

/// Returns `x^a exp(-x) / Γ(a)`, and the mask of elements where it vanishes.
pub(crate) fn weight<'f>(a: Num<'f>, x: Num<'f>) -> (Num<'f>, Num<'f>) {
    let log = a * x.ln() - x - lgamma(a);
    let largest = if x.dtype() == DType::F64 { f64::MAX } else { f64::from(f32::MAX) };
    (log.exp(), log.less(-largest.ln()))
}

/// The maximum number of iterations of a series; JAX has no such limit.
pub(crate) const SERIES_LIMIT: u32 = 100_000;
/// The maximum number of iterations of a continued fraction, as in JAX.
pub(crate) const FRACTION_LIMIT: u32 = 2000;

/// Computes `1 + x / (a + 1) + x² / ((a + 1) (a + 2)) + …` where `counts` holds.
fn series<'f>(a: Num<'f>, x: Num<'f>, counts: Num<'f>) -> Num<'f> {
    let one = x.filled(1.0);
    let [_, _, sum] = repeat(SERIES_LIMIT, [counts, one, one], |index, [open, term, sum]| {
        let term = term * (x / (a + (index.cast(a.dtype()) + 1.0)));
        let next = sum + term;
        let still = open & (term / next).greater(x.epsilon());
        (still.any(), [still, term, open.select(next, sum)])
    });
    sum
}

/// Computes `1 / (x + (1 - a) / (1 + 1 / (x + (2 - a) / (1 + 2 / (x + …)))))` where `counts` holds,
/// by the recurrence of its numerators and denominators.
fn fraction<'f>(a: Num<'f>, x: Num<'f>, counts: Num<'f>) -> Num<'f> {
    let epsilon = x.epsilon();
    let one = x.filled(1.0);
    let (p1, q1) = (x + 1.0, (x + (2.0 - a)) * x);
    let start = [counts, p1 / q1, p1, q1, one, x];
    let [_, result, ..] = repeat(FRACTION_LIMIT, start, |index, [open, result, p1, q1, p2, q2]| {
        let n = index.cast(a.dtype()) + 1.0;
        let (across, down) = (x + (2.0 - a) + n * 2.0, (1.0 - a + n) * n);
        let (p, q) = (p1 * across - p2 * down, q1 * across - q2 * down);
        let defined = !q.equals(0.0);
        let next = defined.select(p / q, result);
        let change = defined.select(((result - next) / next).abs(), 1.0);
        let still = open & change.greater(epsilon);
        // Both grow without bounds, and only their quotient matters.
        let scale = p.abs().greater(1.0 / epsilon).select(p.constant(epsilon), 1.0);
        let carry =
            [still, open.select(next, result), p * scale, q * scale, p1 * scale, q1 * scale];
        (still.any(), carry)
    });
    result
}
