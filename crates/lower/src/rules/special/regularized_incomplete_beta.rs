//! regularized_incomplete_beta(a, b, x) → Lentz's evaluation of its continued fraction, a Loop
//! until every element has converged

use onnx::ValueId;
use tensor::DType;

use super::lgamma::lgamma;
use crate::formula::{Num, formula, repeat, spread};
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let operands = spread(cx, x)?;
    formula(cx, &operands, |[a, b, x]| {
        // The fraction converges fast for small x; for large x, the symmetric fraction at 1 - x
        // does.
        let fast = x.less((a + 1.0) / (a + b + 2.0));
        let (left, right) = (fast.select(a, b), fast.select(b, a));
        let from = fast.select(x, 1.0 - x);
        let result = fraction(left, right, from) * weight(left, right, from);
        let result = fast.select(result, 1.0 - result);

        let infinity = f64::INFINITY;
        let a_none = a.equals(0.0) | b.equals(infinity);
        let b_none = b.equals(0.0) | a.equals(infinity);
        let (start, end) = (x.equals(0.0), x.equals(1.0));
        let zero = (b_none & !end) | (a_none & start);
        let one = (a_none & !start) | (b_none & end);
        let outside = a.less(0.0) | b.less(0.0) | x.less(0.0) | x.greater(1.0);
        let nan = a.is_nan() | b.is_nan() | x.is_nan();
        let result = one.select(1.0, zero.select(0.0, result));
        (outside | nan | (a_none & b_none)).select(f64::NAN, result)
    })
}

/// Computes `x^a (1 - x)^b / (a B(a, b))`; for the tiniest `a`, `a Γ(a)` is one.
fn weight<'f>(a: Num<'f>, b: Num<'f>, x: Num<'f>) -> Num<'f> {
    let tiny =
        if x.dtype() == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let rest = (-x).ln_1p() * b - (lgamma(b) - lgamma(a + b));
    let usual = (x.ln() * a + rest - lgamma(a)).exp() / a;
    a.less(2.0 * tiny).select(rest.exp(), usual)
}

/// Computes the continued fraction `1 / (1 + d₁ / (1 + d₂ / (1 + …)))`.
fn fraction<'f>(a: Num<'f>, b: Num<'f>, x: Num<'f>) -> Num<'f> {
    let small = x.epsilon() / 2.0;
    let limit = if x.dtype() == DType::F64 { 600 } else { 200 };
    let nonzero = |x: Num<'f>| x.abs().less(small).select(small, x);
    // Before the first iteration the value is 0, which a small number replaces.
    let (start, zero) = (x.filled(small), x.filled(0.0));
    let [.., value] = repeat(limit - 1, [start, zero, start], |index, [c, d, value]| {
        let term = term(a, b, x, index);
        let c = nonzero(term / c + 1.0);
        let d = 1.0 / nonzero(term * d + 1.0);
        let factor = c * d;
        let open = (factor - 1.0).abs().at_least(small);
        (open.any(), [c, d, value * factor])
    });
    value
}

/// Returns the numerator of an iteration: 1, then `d₁`, `d₂`, ….
fn term<'f>(a: Num<'f>, b: Num<'f>, x: Num<'f>, index: Num<'f>) -> Num<'f> {
    let n = index.cast(x.dtype());
    let m = (n * 0.5).floor();
    let twice = a + m * 2.0;
    // For `m` = 0, a factor that could be zero cancels.
    let first = -(a + b) * x / (a + 1.0);
    let odd = -(a + m) * (a + b + m) * x / (twice * (twice + 1.0));
    let odd = m.equals(0.0).select(first, odd);
    let even = m * (b - m) * x / ((twice - 1.0) * twice);
    let is_even = n.equals(m * 2.0);
    n.equals(0.0).select(1.0, is_even.select(even, odd))
}
