//! zeta(x, q) → ten terms of Hurwitz's series, and the rest by the Euler–Maclaurin formula

use crate::formula::Num;

/// The even Bernoulli numbers divided by the factorials of their indices, last to first.
const EULER_MACLAURIN: [f64; 12] = [
    -1.3954464685812522e-19,
    5.5090028283602295e-18,
    -2.174868698558062e-16,
    8.586062056277845e-15,
    -3.3896802963225827e-13,
    1.3382536530684679e-11,
    -5.284190138687493e-10,
    2.08767569878681e-8,
    -8.267195767195768e-7,
    3.306878306878307e-5,
    -0.001388888888888889,
    0.08333333333333333,
];

/// The number of terms that are summed directly.
const TERMS: u8 = 10;

/// Computes the sum of `(q + n)^-x` over all `n` from 0.
pub(crate) fn zeta<'f>(x: Num<'f>, q: Num<'f>) -> Num<'f> {
    let power = |base: Num<'f>| base.pow(-x);
    let sum = (1..TERMS).fold(power(q), |sum, n| sum + power(q + f64::from(n)));
    let end = q + f64::from(TERMS);
    let last = power(end);
    let inverse_square = 1.0 / end.squared();
    let [first, rest @ ..] = EULER_MACLAURIN;
    let mut series = x.constant(first);
    for (degree, coefficient) in (1..=rest.len()).rev().map(|half| 2.0 * half as f64).zip(rest) {
        let factor = (x + degree) * (x + (degree - 1.0));
        series = series * inverse_square * factor + coefficient;
    }
    let rest = last * end / (x - 1.0) + last * (x / end * series + 0.5);
    // Where the rest is negligible, the series may have overflowed.
    let settled = last.abs().less(sum.abs() * x.epsilon());
    let result = settled.select(sum, sum + rest);

    let whole = x.equals(x.floor());
    let result = (x.less(1.0) | (q.at_most(0.0) & !whole)).select(f64::NAN, result);
    // At poles, even powers have the same sign on both sides.
    let half = x * 0.5;
    let even = half.equals(half.floor());
    let at_pole = even.select(x.constant(f64::INFINITY), f64::NAN);
    let result = (q.at_most(0.0) & q.equals(q.floor())).select(at_pole, result);
    x.equals(1.0).select(f64::INFINITY, result)
}
