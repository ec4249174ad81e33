//! exp, exp2, expm1, log, log2, log1p, and logarithms of sums of exponentials

use std::f64::consts::{LN_2, LOG2_E, PI};

use super::Result;
use super::modulus::Modulus;
use super::number::{Complex, unary};
use crate::formula::{Num, formulas};
use crate::rules::linear_algebra::complex_arrays::Entries;
use crate::{Context, Parts};

pub(in crate::rules) fn exp(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.exp())
}

pub(in crate::rules) fn exp2(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.each(|part| part * LN_2).exp())
}

/// e^(x+iy) - 1 = (eˣ - 1) cos y - 2 sin²(y/2) + i eˣ sin y, of which nothing cancels.
pub(in crate::rules) fn expm1(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| {
        let (x, y) = (z.re, z.im);
        let sine = (y * 0.5).sin();
        let re = x.exp_m1() * y.cos() - sine * sine * 2.0;
        Complex { re, im: zero_with(y, x.exp() * y.sin()) }
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

/// log(eᵃ + eᵇ) = larger + log(1 + e^(smaller - larger)), with an angle from -π to π.
pub(in crate::rules) fn log_add_exp(
    cx: &mut Context<'_>,
    a: Entries,
    b: Entries,
) -> Result<Entries> {
    let operands = [Parts::from(a), Parts::from(b)].map(|v| [v.re(), v.im()]);
    let [[a, b], [c, d]] = operands;
    let [re, im] = formulas(cx, [a, b, c, d], |[a, b, c, d]| {
        let first = a.equals(c).select(b.greater(d), a.greater(c));
        let larger = Complex { re: first.select(a, c), im: first.select(b, d) };
        let smaller = Complex { re: first.select(c, a), im: first.select(d, b) };
        let sum = larger + (smaller - larger).exp().ln_1p();
        let turns = ((sum.im + PI) * (0.5 / PI)).floor();
        [sum.re, sum.im - turns * (2.0 * PI)]
    })?;
    Ok(Entries { re, im: Some(im) })
}

/// `value`, but zero where `y` is zero, even if a factor is infinite there.
#[track_caller]
pub(super) fn zero_with<'f>(y: Num<'f>, value: Num<'f>) -> Num<'f> {
    y.equals(0.0).select(0.0, value)
}

impl<'f> Complex<'f> {
    /// e to the power of this number.
    #[track_caller]
    pub(super) fn exp(self) -> Self {
        // Two halves of the exponent overflow later than the whole.
        let half = (self.re * 0.5).exp();
        let re = half * self.im.cos() * half;
        let im = half * self.im.sin() * half;
        Self { re, im: zero_with(self.im, im) }
    }

    /// The logarithm, cut along the negative real numbers.
    #[track_caller]
    pub(super) fn ln(self) -> Self {
        Self { re: Modulus::of(self).ln(), im: self.im.atan2(self.re) }
    }

    /// The logarithm of one plus this number.
    #[track_caller]
    fn ln_1p(self) -> Self {
        let Self { re: x, im: y } = self;
        let next = Self { re: x + 1.0, im: y };
        // |1 + z|² - 1 = x(x + 2) + y², which is small for small numbers.
        let near = (x * (x + 2.0) + y * y).ln_1p() * 0.5;
        let small = x.abs().max(y.abs()).less(0.5);
        let re = small.select(near, Modulus::of(next).ln());
        Self { re, im: y.atan2(next.re) }
    }
}
