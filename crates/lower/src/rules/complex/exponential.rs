//! exp, exp2, expm1, log, log2, log1p, and logarithms of sums of exponentials

use std::f64::consts::{LN_2, LOG2_E, PI};

use super::modulus::Modulus;
use crate::formula::Num;
use crate::formula::number::{Number, numbers};
use crate::{Context, Parts, Result};

#[track_caller]
pub(in crate::rules) fn exp(z: Number<'_>) -> Number<'_> {
    // Applying half of the exponent twice overflows later than applying the whole.
    let half = (z.re * 0.5).exp();
    let re = half * z.im().cos() * half;
    let im = half * z.im().sin() * half;
    Number::complex(re, zero_with(z.im(), im))
}

pub(in crate::rules) fn exp2(z: Number<'_>) -> Number<'_> {
    exp(z.each(|part| part * LN_2))
}

/// Computes e^(x+iy) - 1 = (eˣ - 1) cos y - 2 sin²(y/2) + i eˣ sin y without cancellation.
pub(in crate::rules) fn expm1(z: Number<'_>) -> Number<'_> {
    let (x, y) = (z.re, z.im());
    let sine = (y * 0.5).sin();
    let re = x.exp_m1() * y.cos() - sine * sine * 2.0;
    Number::complex(re, zero_with(y, x.exp() * y.sin()))
}

/// Returns the logarithm, with a branch cut along the negative real numbers.
#[track_caller]
pub(in crate::rules) fn log(z: Number<'_>) -> Number<'_> {
    Number::complex(Modulus::of(z).ln(), z.im().atan2(z.re))
}

pub(in crate::rules) fn log2(z: Number<'_>) -> Number<'_> {
    log(z).each(|part| part * LOG2_E)
}

#[track_caller]
pub(in crate::rules) fn log1p(z: Number<'_>) -> Number<'_> {
    let (x, y) = (z.re, z.im());
    let next = Number::complex(x + 1.0, y);
    // |1 + z|² - 1 = x(x + 2) + y², which is small for small numbers.
    let near = (x * (x + 2.0) + y * y).ln_1p() * 0.5;
    let small = x.abs().max(y.abs()).less(0.5);
    let re = small.select(near, Modulus::of(next).ln());
    Number::complex(re, y.atan2(next.re))
}

/// Computes log(eᵃ + eᵇ) = larger + log(1 + e^(smaller - larger)), with an angle from -π to π.
pub(in crate::rules) fn log_add_exp(cx: &mut Context<'_>, a: Parts, b: Parts) -> Result<Parts> {
    let [result] = numbers(cx, [a, b], |[a, b]| {
        let first = a.re.equals(b.re).select(a.im().greater(b.im()), a.re.greater(b.re));
        let (larger, smaller) = (a.or(first, b), b.or(first, a));
        let sum = larger + log1p(exp(smaller - larger));
        let turns = ((sum.im() + PI) * (0.5 / PI)).floor();
        [Number::complex(sum.re, sum.im() - turns * (2.0 * PI))]
    })?;
    Ok(result)
}

/// Returns `value`, or zero where `y` is zero, even if a factor is infinite there.
#[track_caller]
pub(super) fn zero_with<'f>(y: Num<'f>, value: Num<'f>) -> Num<'f> {
    y.equals(0.0).select(0.0, value)
}
