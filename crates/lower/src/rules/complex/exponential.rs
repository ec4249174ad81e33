//! exp, exp2, expm1, log, log2, log1p, and logarithms of sums of exponentials

use std::f64::consts::{LN_2, LOG2_E, PI};

use super::modulus::Modulus;
use crate::formula::Num;
use crate::formula::number::{Number, numbers, unary};
use crate::{Context, Parts, Result};

pub(in crate::rules) fn exp(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.exp())
}

pub(in crate::rules) fn exp2(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.each(|part| part * LN_2).exp())
}

/// Computes e^(x+iy) - 1 = (eˣ - 1) cos y - 2 sin²(y/2) + i eˣ sin y without cancellation.
pub(in crate::rules) fn expm1(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| {
        let (x, y) = (z.re, z.im());
        let sine = (y * 0.5).sin();
        let re = x.exp_m1() * y.cos() - sine * sine * 2.0;
        Number::complex(re, zero_with(y, x.exp() * y.sin()))
    })
}

pub(in crate::rules) fn log(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.ln())
}

pub(in crate::rules) fn log2(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.ln().each(|part| part * LOG2_E))
}

pub(in crate::rules) fn log1p(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.ln_1p())
}

/// Computes log(eᵃ + eᵇ) = larger + log(1 + e^(smaller - larger)), with an angle from -π to π.
pub(in crate::rules) fn log_add_exp(cx: &mut Context<'_>, a: Parts, b: Parts) -> Result<Parts> {
    let [result] = numbers(cx, [a, b], |[a, b]| {
        let first = a.re.equals(b.re).select(a.im().greater(b.im()), a.re.greater(b.re));
        let (larger, smaller) = (a.or(first, b), b.or(first, a));
        let sum = larger + (smaller - larger).exp().ln_1p();
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

impl<'f> Number<'f> {
    /// Returns e to the power of this number.
    #[track_caller]
    pub(super) fn exp(self) -> Self {
        // Applying half of the exponent twice overflows later than applying the whole.
        let half = (self.re * 0.5).exp();
        let re = half * self.im().cos() * half;
        let im = half * self.im().sin() * half;
        Number::complex(re, zero_with(self.im(), im))
    }

    /// Returns the logarithm, with a branch cut along the negative real numbers.
    #[track_caller]
    pub(super) fn ln(self) -> Self {
        Number::complex(Modulus::of(self).ln(), self.im().atan2(self.re))
    }

    /// Returns the logarithm of one plus this number.
    #[track_caller]
    fn ln_1p(self) -> Self {
        let (x, y) = (self.re, self.im());
        let next = Number::complex(x + 1.0, y);
        // |1 + z|² - 1 = x(x + 2) + y², which is small for small numbers.
        let near = (x * (x + 2.0) + y * y).ln_1p() * 0.5;
        let small = x.abs().max(y.abs()).less(0.5);
        let re = small.select(near, Modulus::of(next).ln());
        Number::complex(re, y.atan2(next.re))
    }
}
