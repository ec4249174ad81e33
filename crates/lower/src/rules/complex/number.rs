//! Complex numbers in formulas.

use std::ops::{Add, Mul, Neg, Sub};

use super::Result;
use crate::formula::{Num, formulas};
use crate::{Context, Parts};

/// A complex number in a formula.
#[derive(Clone, Copy)]
pub(super) struct Complex<'f> {
    pub(super) re: Num<'f>,
    pub(super) im: Num<'f>,
}

/// The result of a formula of one number.
pub(super) fn unary(
    cx: &mut Context<'_>,
    x: &[Parts],
    body: impl for<'f> FnOnce(Complex<'f>) -> Complex<'f>,
) -> Result<Vec<Parts>> {
    let [re, im] = formulas(cx, [x[0].re(), x[0].im()], |[re, im]| {
        let result = body(Complex { re, im });
        [result.re, result.im]
    })?;
    Ok(vec![Parts::Complex(re, im)])
}

/// The result of a formula of two numbers.
pub(super) fn binary(
    cx: &mut Context<'_>,
    x: &[Parts],
    body: impl for<'f> FnOnce(Complex<'f>, Complex<'f>) -> Complex<'f>,
) -> Result<Vec<Parts>> {
    let operands = [x[0].re(), x[0].im(), x[1].re(), x[1].im()];
    let [re, im] = formulas(cx, operands, |[a, b, c, d]| {
        let result = body(Complex { re: a, im: b }, Complex { re: c, im: d });
        [result.re, result.im]
    })?;
    Ok(vec![Parts::Complex(re, im)])
}

/// Whether a number is known to have no imaginary part, such as one that was converted from a real.
pub(super) fn is_real(cx: &Context<'_>, x: Parts) -> bool {
    let Parts::Complex(_, im) = x else { return true };
    cx.elements(im).and_then(|parts| parts.splat()) == Some(0.0)
}

impl<'f> Complex<'f> {
    /// Part by part.
    #[track_caller]
    pub(super) fn each(self, f: impl Fn(Num<'f>) -> Num<'f>) -> Self {
        Self { re: f(self.re), im: f(self.im) }
    }

    /// Multiplied by i: turned to the left.
    #[track_caller]
    pub(super) fn turned_left(self) -> Self {
        Self { re: -self.im, im: self.re }
    }

    /// Divided by i: turned to the right.
    #[track_caller]
    pub(super) fn turned_right(self) -> Self {
        Self { re: self.im, im: -self.re }
    }
}

impl<'f> Add for Complex<'f> {
    type Output = Self;

    #[track_caller]
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl<'f> Sub for Complex<'f> {
    type Output = Self;

    #[track_caller]
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl<'f> Mul for Complex<'f> {
    type Output = Self;

    #[track_caller]
    fn mul(self, other: Self) -> Self {
        let re = self.re * other.re - self.im * other.im;
        let im = self.re * other.im + self.im * other.re;
        Self { re, im }
    }
}

impl Neg for Complex<'_> {
    type Output = Self;

    #[track_caller]
    fn neg(self) -> Self {
        Self { re: -self.re, im: -self.im }
    }
}
