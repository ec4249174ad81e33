//! mul, square, one_minus_square, integer_pow, div, logistic: products and quotients

use super::exponential::exp;
use crate::formula::Num;
use crate::formula::number::{Number, binary, is_real, unary};
use crate::{Context, Parts, Result};

pub(in crate::rules) fn mul<'f>(a: Number<'f>, b: Number<'f>) -> Number<'f> {
    a * b
}

#[track_caller]
pub(in crate::rules) fn square(z: Number<'_>) -> Number<'_> {
    let (re, im) = (z.re, z.im());
    let half = re * im;
    Number::complex((re - im) * (re + im), half + half)
}

/// Computes (1 + z)(1 - z), which does not cancel near 1.
pub(in crate::rules) fn one_minus_square(z: Number<'_>) -> Number<'_> {
    let more = Number::complex(z.re + 1.0, z.im());
    more * Number::complex(1.0 - z.re, -z.im())
}

pub(in crate::rules) fn integer_pow(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let exponent: i64 = cx.param("y")?;
    if exponent == 0 {
        let ty = cx.out(0);
        let re = cx.full(ty.dtype, 1.0, &ty.shape)?;
        return Ok(vec![Parts::Complex(re, cx.full(ty.dtype, 0.0, &ty.shape)?)]);
    }
    unary(cx, x, |z| {
        let power = z.power(exponent.unsigned_abs());
        if exponent < 0 { power.reciprocal() } else { power }
    })
}

/// Divides. A real divisor divides each part.
pub(in crate::rules) fn div(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    if is_real(cx, x[1]) {
        return binary(cx, x, |a, b| a / b.re);
    }
    binary(cx, x, |a, b| a.over(b))
}

/// Computes 1 / (1 + e⁻ᶻ).
pub(in crate::rules) fn logistic(z: Number<'_>) -> Number<'_> {
    let power = exp(-z);
    Number::complex(power.re + 1.0, power.im()).reciprocal()
}

/// A divisor prepared for Smith's method, which divides by the larger part first so that the square
/// cannot overflow: (a + bi) / (c + di) = (a + br + (b - ar)i) / (c + dr) with r = d / c, if |c| ≥
/// |d|.
struct Divisor<'f> {
    /// The mask |c| ≥ |d|.
    wide: Num<'f>,
    /// The smaller part divided by the larger one.
    ratio: Num<'f>,
    /// The larger part plus the ratio times the smaller one.
    whole: Num<'f>,
}

impl<'f> Divisor<'f> {
    #[track_caller]
    fn of(z: Number<'f>) -> Self {
        let wide = z.re.abs().at_least(z.im().abs());
        let (larger, smaller) = (wide.select(z.re, z.im()), wide.select(z.im(), z.re));
        // Infinite parts also get a ratio, so that a quotient by them is zero.
        let most = largest(z.re);
        let finite = |part: Num<'f>| part.max(-most).min(most);
        let zero = larger.equals(0.0);
        let ratio = finite(smaller) / zero.select(1.0, finite(larger));
        Self { wide, ratio, whole: larger + smaller * ratio }
    }
}

fn largest(x: Num<'_>) -> f64 {
    if x.dtype() == tensor::DType::F64 { f64::MAX } else { f64::from(f32::MAX) }
}

impl<'f> Number<'f> {
    /// Returns a positive power.
    #[track_caller]
    fn power(self, exponent: u64) -> Self {
        let (mut base, mut rest, mut product) = (self, exponent, None);
        loop {
            if rest & 1 == 1 {
                product = Some(product.map_or(base, |product| product * base));
            }
            rest >>= 1;
            if rest == 0 {
                return product.unwrap_or(self);
            }
            base = base * base;
        }
    }

    /// Returns the quotient.
    #[track_caller]
    pub(super) fn over(self, divisor: Self) -> Self {
        let Divisor { wide, ratio, whole } = Divisor::of(divisor);
        let (a, b) = (self.re, self.im());
        let (left, right) = (a * ratio, b * ratio);
        let re = wide.select(a + right, left + b) / whole;
        let im = wide.select(b - left, right - a) / whole;
        Number::complex(re, im)
    }

    /// Returns the reciprocal.
    #[track_caller]
    pub(super) fn reciprocal(self) -> Self {
        let Divisor { wide, ratio, whole } = Divisor::of(self);
        let re = wide.select(1.0, ratio) / whole;
        let im = wide.select(-ratio, -1.0) / whole;
        Number::complex(re, im)
    }
}
