//! igamma_grad_a(a, x) → the series and the continued fraction of igamma, together with their derivatives

use onnx::ValueId;

use super::digamma::digamma;
use super::incomplete_gamma::{FRACTION_LIMIT, SERIES_LIMIT, weight};
use crate::formula::{Num, formula, repeat, spread};
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let operands = spread(cx, x)?;
    formula(cx, &operands, |[a, x]| {
        let (weight, vanishes) = weight(a, x);
        let outside = x.less(0.0) | a.at_most(0.0) | a.is_nan() | x.is_nan();
        let at_zero = x.equals(0.0);
        let counts = !(outside | vanishes | at_zero);
        let far = x.greater(1.0) & x.greater(a);
        let log = x.ln();
        let (upper, upper_slope) = fraction(a, x, counts & far);
        let upper = -(upper * (log - digamma(a)) + upper_slope);
        let (lower, lower_slope) = series(a, x, counts & !far);
        let lower = (lower * (log - digamma(a + 1.0)) + lower_slope) / a;
        let result = far.select(upper, lower) * weight;
        outside.select(f64::NAN, at_zero.select(0.0, result))
    })
}

/// Returns the series of igamma and its derivative by `a`.
fn series<'f>(a: Num<'f>, x: Num<'f>, counts: Num<'f>) -> (Num<'f>, Num<'f>) {
    let zero = x.filled(0.0);
    let one = x.filled(1.0);
    let start = [counts, one, one, zero, zero];
    let [_, _, sum, _, slope] =
        repeat(SERIES_LIMIT, start, |index, [open, term, sum, dterm, slope]| {
            let place = a + (index.cast(a.dtype()) + 1.0);
            let factor = x / place;
            let dterm = dterm * factor - term * factor / place;
            let term = term * factor;
            let steeper = slope + dterm;
            let still = open & (dterm / steeper).abs().greater(x.epsilon());
            let (sum, slope) = (open.select(sum + term, sum), open.select(steeper, slope));
            (still.any(), [still, term, sum, dterm, slope])
        });
    (sum, slope)
}

/// Returns the continued fraction of igammac and its derivative by `a`.
fn fraction<'f>(a: Num<'f>, x: Num<'f>, counts: Num<'f>) -> (Num<'f>, Num<'f>) {
    let epsilon = x.epsilon();
    let zero = x.filled(0.0);
    let (p1, q1) = (x + 1.0, (x + (2.0 - a)) * x);
    let value = p1 / q1;
    let start = [counts, value, value * x / q1, p1, q1, x.filled(1.0), x, zero, -x, zero, zero];
    let results = repeat(FRACTION_LIMIT, start, |index, carry| {
        let [open, value, slope, p1, q1, p2, q2, dp1, dq1, dp2, dq2] = carry;
        let n = index.cast(a.dtype()) + 1.0;
        let (across, down) = (x + (2.0 - a) + n * 2.0, (1.0 - a + n) * n);
        let (p, q) = (p1 * across - p2 * down, q1 * across - q2 * down);
        let dp = dp1 * across - p1 - dp2 * down + p2 * n;
        let dq = dq1 * across - q1 - dq2 * down + q2 * n;
        let defined = !q.equals(0.0);
        let next = defined.select(p / q, value);
        let steeper = defined.select((dp - next * dq) / q, slope);
        let change = defined.select((steeper - slope).abs(), 1.0);
        let still = open & change.greater(epsilon);
        let (value, slope) = (open.select(next, value), open.select(steeper, slope));
        let scale = p.abs().greater(1.0 / epsilon).select(p.constant(epsilon), 1.0);
        let [p, q, p1, q1] = [p, q, p1, q1].map(|part| part * scale);
        let [dp, dq, dp1, dq1] = [dp, dq, dp1, dq1].map(|part| part * scale);
        (still.any(), [still, value, slope, p, q, p1, q1, dp, dq, dp1, dq1])
    });
    (results[1], results[2])
}
