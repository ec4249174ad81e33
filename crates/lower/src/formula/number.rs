//! Real and complex numbers in formulas.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::panic::Location;

use onnx::formula::formulas_at;

use super::Num;
use crate::{Context, Parts, Result};

/// A number in a formula, real or complex.
#[derive(Clone, Copy)]
pub(crate) struct Number<'f> {
    pub(crate) re: Num<'f>,
    im: Option<Num<'f>>,
}

/// Emits several results of a formula of numbers.
pub(crate) fn numbers<const N: usize, const M: usize>(
    cx: &mut Context<'_>,
    operands: [Parts; N],
    body: impl for<'f> FnOnce([Number<'f>; N]) -> [Number<'f>; M],
) -> Result<[Parts; M]> {
    numbers_at(cx, None, operands, body)
}

/// Emits several results of a formula of numbers. If `at` is given, all nodes are attributed to
/// that line.
fn numbers_at<const N: usize, const M: usize>(
    cx: &mut Context<'_>,
    at: Option<&'static Location<'static>>,
    operands: [Parts; N],
    body: impl for<'f> FnOnce([Number<'f>; N]) -> [Number<'f>; M],
) -> Result<[Parts; M]> {
    let mut imaginary = [None; M];
    let real = formulas_at(cx, at, operands.map(Parts::re), |real| {
        let operands = std::array::from_fn(|i| Number {
            re: real[i],
            im: operands[i].im().map(|im| real[i].beside(im)),
        });
        let results = body(operands);
        imaginary = results.map(|result| result.im.map(Num::id));
        results.map(|result| result.re)
    })?;
    Ok(std::array::from_fn(|i| Parts::new(real[i], imaginary[i])))
}

/// Emits a formula on behalf of the line that calls this function.
#[track_caller]
pub(crate) fn number<const N: usize>(
    cx: &mut Context<'_>,
    operands: [Parts; N],
    body: impl for<'f> FnOnce([Number<'f>; N]) -> Number<'f>,
) -> Result<Parts> {
    let [result] = numbers_at(cx, Some(Location::caller()), operands, |x| [body(x)])?;
    Ok(result)
}

/// Emits a formula of one number.
pub(crate) fn unary(
    cx: &mut Context<'_>,
    x: &[Parts],
    body: impl for<'f> FnOnce(Number<'f>) -> Number<'f>,
) -> Result<Vec<Parts>> {
    Ok(numbers(cx, [x[0]], |[z]| [body(z)])?.into())
}

/// Emits a formula of two numbers.
pub(crate) fn binary(
    cx: &mut Context<'_>,
    x: &[Parts],
    body: impl for<'f> FnOnce(Number<'f>, Number<'f>) -> Number<'f>,
) -> Result<Vec<Parts>> {
    Ok(numbers(cx, [x[0], x[1]], |[a, b]| [body(a, b)])?.into())
}

/// Returns `true` if a number is known to have no imaginary part, such as one that was converted
/// from a real.
pub(crate) fn is_real(cx: &Context<'_>, x: Parts) -> bool {
    let Parts::Complex(_, im) = x else { return true };
    cx.facts().elements(im).and_then(|parts| parts.splat()) == Some(0.0)
}

impl<'f> From<Num<'f>> for Number<'f> {
    fn from(re: Num<'f>) -> Self {
        Self { re, im: None }
    }
}

impl<'f> Number<'f> {
    pub(crate) fn complex(re: Num<'f>, im: Num<'f>) -> Self {
        Self { re, im: Some(im) }
    }

    /// Returns the imaginary part, which is zero for a real number.
    pub(crate) fn im(self) -> Num<'f> {
        self.im.unwrap_or_else(|| self.re.constant(0.0))
    }

    /// Applies `f` to each part.
    #[track_caller]
    pub(crate) fn each(self, f: impl Fn(Num<'f>) -> Num<'f>) -> Self {
        Self { re: f(self.re), im: self.im.map(f) }
    }

    /// Combines the parts of two numbers with `f`.
    #[track_caller]
    pub(crate) fn zip(self, other: Self, f: impl Fn(Num<'f>, Num<'f>) -> Num<'f>) -> Self {
        let re = f(self.re, other.re);
        let is_real = self.im.is_none() && other.im.is_none();
        Self { re, im: (!is_real).then(|| f(self.im(), other.im())) }
    }

    /// Applies an operation that is linear in both numbers, such as the product.
    #[track_caller]
    pub(crate) fn bilinear(self, other: Self, f: impl Fn(Num<'f>, Num<'f>) -> Num<'f>) -> Self {
        let re = f(self.re, other.re);
        match (self.im, other.im) {
            (None, None) => re.into(),
            (Some(im), None) => Self::complex(re, f(im, other.re)),
            (None, Some(im)) => Self::complex(re, f(self.re, im)),
            (Some(a), Some(b)) => {
                let re = re - f(a, b);
                Self::complex(re, f(self.re, b) + f(a, other.re))
            }
        }
    }

    /// Returns the conjugate.
    #[track_caller]
    pub(crate) fn conj(self) -> Self {
        Self { re: self.re, im: self.im.map(|im| -im) }
    }

    /// Returns the square of the modulus.
    #[track_caller]
    pub(crate) fn norm(self) -> Num<'f> {
        let re = self.re.squared();
        self.im.map_or(re, |im| re + im.squared())
    }

    /// Returns the magnitude that LAPACK compares numbers by: |re| + |im|.
    #[track_caller]
    pub(crate) fn size(self) -> Num<'f> {
        let re = self.re.abs();
        self.im.map_or(re, |im| re + im.abs())
    }

    /// Selects this number where `mask` holds, and `other` elsewhere.
    #[track_caller]
    pub(crate) fn or(self, mask: Num<'f>, other: Self) -> Self {
        self.zip(other, |a, b| mask.select(a, b))
    }

    /// Multiplies by i, a rotation to the left.
    #[track_caller]
    pub(crate) fn turned_left(self) -> Self {
        Self::complex(-self.im(), self.re)
    }

    /// Divides by i, a rotation to the right.
    #[track_caller]
    pub(crate) fn turned_right(self) -> Self {
        Self::complex(self.im(), -self.re)
    }
}

impl Add for Number<'_> {
    type Output = Self;

    #[track_caller]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl Sub for Number<'_> {
    type Output = Self;

    #[track_caller]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

impl Mul for Number<'_> {
    type Output = Self;

    #[track_caller]
    fn mul(self, other: Self) -> Self {
        self.bilinear(other, |a, b| a * b)
    }
}

impl<'f> Div<Num<'f>> for Number<'f> {
    type Output = Self;

    #[track_caller]
    fn div(self, divisor: Num<'f>) -> Self {
        self.each(|part| part / divisor)
    }
}

/// Division of finite numbers. The results of JAX's `div` for infinities take more nodes: see
/// [`Number::over`].
impl Div for Number<'_> {
    type Output = Self;

    #[track_caller]
    fn div(self, divisor: Self) -> Self {
        let Some(im) = divisor.im else { return self / divisor.re };
        // Dividing by the larger part first keeps the square of the modulus from overflowing.
        let larger = divisor.re.abs().max(im.abs());
        let unit = divisor / larger;
        let norm = unit.norm();
        self * (unit.conj() / norm) / larger
    }
}

impl Neg for Number<'_> {
    type Output = Self;

    #[track_caller]
    fn neg(self) -> Self {
        self.each(|part| -part)
    }
}
