//! asin, acos, atan, asinh, acosh, atanh, atan2
//!
//! Kahan's formulas for the first quadrant, with the signs of the parts restored afterwards.

use std::f64::consts::{FRAC_PI_2, LN_2, PI};

use tensor::DType;

use super::arithmetic::square;
use super::exponential::log;
use super::modulus::Modulus;
use super::power::{root_sides, sqrt};
use crate::formula::Num;
use crate::formula::number::Number;

#[track_caller]
pub(in crate::rules) fn asin(z: Number<'_>) -> Number<'_> {
    let arc = Arc::of(z);
    Number::complex(with_sign(arc.sine(), z.re), with_sign(arc.height(), z.im()))
}

pub(in crate::rules) fn acos(z: Number<'_>) -> Number<'_> {
    let arc = Arc::of(z);
    Number::complex(arc.cosine(z.re), with_sign(-arc.height(), z.im()))
}

pub(in crate::rules) fn acosh(z: Number<'_>) -> Number<'_> {
    let arc = Arc::of(z);
    Number::complex(arc.height(), with_sign(arc.cosine(z.re), z.im()))
}

pub(in crate::rules) fn asinh(z: Number<'_>) -> Number<'_> {
    // Exchanging the parts is a rotation and a reflection, and asin is symmetric under both.
    let arc = asin(Number::complex(z.im(), z.re));
    Number::complex(arc.im(), arc.re)
}

/// Computes log(1 + 4x / ((1 - x)² + y²)) / 4 + i atan2(2y, (1 - x)(1 + x) - y²) / 2, for x ≥ 0.
#[track_caller]
pub(in crate::rules) fn atanh(z: Number<'_>) -> Number<'_> {
    // Beyond this, the result is ±π/2 i, but the squares overflow.
    let most = if z.re.dtype() == DType::F64 { 1e150 } else { 1e18 };
    let (x, y) = (z.re.abs().min(most), z.im().max(-most).min(most));
    let rest = 1.0 - x;
    let re = (x * 4.0 / (rest * rest + y * y)).ln_1p() * 0.25;
    let im = (y * 2.0).atan2(rest * (x + 1.0) - y * y) * 0.5;
    Number::complex(with_sign(re, z.re), im)
}

pub(in crate::rules) fn atan(z: Number<'_>) -> Number<'_> {
    atanh(z.turned_left()).turned_right()
}

/// Computes -i log((x + iy) / √(x² + y²)), where x and y may be complex.
pub(in crate::rules) fn atan2<'f>(y: Number<'f>, x: Number<'f>) -> Number<'f> {
    let length = sqrt(square(x) + square(y));
    log((x + y.turned_left()).over(length)).turned_right()
}

/// Returns `value` with the sign of `like`; the sign of zero is ignored.
#[track_caller]
fn with_sign<'f>(value: Num<'f>, like: Num<'f>) -> Num<'f> {
    like.less(0.0).select(-value, value)
}

/// A number z of the first quadrant, with the square roots of 1 - z̄ = a + bi and 1 + z = c + di.
struct Arc<'f> {
    modulus: Modulus<'f>,
    /// The mask of numbers so large that 1 is negligible.
    far: Num<'f>,
    minus: Number<'f>,
    plus: Number<'f>,
}

impl<'f> Arc<'f> {
    #[track_caller]
    fn of(z: Number<'f>) -> Self {
        let modulus = Modulus::of(z);
        let (x, y) = modulus.sides;
        let (long, short) = root_sides(Number::complex(1.0 - x, y));
        let inside = x.at_most(1.0);
        let minus = Number::complex(inside.select(long, short), inside.select(short, long));
        let (re, im) = root_sides(Number::complex(x + 1.0, y));
        let far = modulus.larger.greater(1e10);
        Self { modulus, far, minus, plus: Number::complex(re, im) }
    }

    /// Returns |Im asin z| = |Im acos z|.
    #[track_caller]
    fn height(&self) -> Num<'f> {
        let Self { modulus, minus, plus, .. } = self;
        let near = (minus.re * plus.im() + minus.im() * plus.re).asinh();
        let far = modulus.larger.ln() + modulus.stretch.ln() + LN_2;
        self.far.select(far, near)
    }

    /// Returns Re asin z.
    #[track_caller]
    fn sine(&self) -> Num<'f> {
        let Self { modulus, minus, plus, .. } = self;
        let (x, _) = modulus.sides;
        let near = x / (minus.re * plus.re + minus.im() * plus.im());
        self.far.select(self.slope(), near).atan()
    }

    /// Returns the tangent of the angle with the imaginary axis.
    #[track_caller]
    fn slope(&self) -> Num<'f> {
        let Modulus { sides: (x, y), ratio, .. } = self.modulus;
        x.at_least(y).select(1.0 / ratio, ratio)
    }

    /// Returns Re acos z, for a number whose real part has the sign of `x`.
    #[track_caller]
    fn cosine(&self, x: Num<'f>) -> Num<'f> {
        let near = (self.minus.re / self.plus.re).atan() * 2.0;
        let angle = self.far.select(FRAC_PI_2 - self.slope().atan(), near);
        x.less(0.0).select(PI - angle, angle)
    }
}
