//! sqrt, rsqrt, pow

use super::modulus::Modulus;
use crate::formula::Num;
use crate::formula::number::{Number, binary, is_real};
use crate::{Context, Parts, Result};

/// Returns the square root, with a branch cut along the negative real numbers, which count as above
/// the cut.
#[track_caller]
pub(in crate::rules) fn sqrt(z: Number<'_>) -> Number<'_> {
    let (long, short) = root_sides(z);
    let right = z.re.at_least(0.0);
    let re = right.select(long, short);
    let im = right.select(short, long);
    Number::complex(re, z.im().less(0.0).select(-im, im))
}

pub(in crate::rules) fn rsqrt(z: Number<'_>) -> Number<'_> {
    let modulus = Modulus::of(z);
    let wide = modulus.sides.0.at_least(modulus.sides.1);
    let long = half_cosine(modulus, wide);
    let short = wide.select(modulus.ratio, 1.0) / (long + long);
    let size = modulus.stretch * modulus.larger.sqrt();
    let right = z.re.at_least(0.0);
    let re = right.select(long, short) / size;
    let im = right.select(short, long) / size;
    // Along the negative real numbers the sign of a zero matters, unlike for the square root.
    Number::complex(re, z.im().is_negative().select(im, -im))
}

/// Computes |z|ᶜ e^(-dθ), rotated by cθ + d log|z|, for an exponent c + di and the angle θ of z.
pub(in crate::rules) fn pow(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let dtype = cx.out(0).dtype;
    let exponent = cx.cast(x[1].re(), dtype)?;
    if is_real(cx, x[1]) {
        return binary(cx, &[x[0], Parts::Real(exponent)], |z, c| {
            let size = Modulus::of(z).value().pow(c.re);
            polar(size, z.im().atan2(z.re) * c.re)
        });
    }
    binary(cx, &[x[0], Parts::new(exponent, x[1].im())], |z, w| {
        let (modulus, angle) = (Modulus::of(z), z.im().atan2(z.re));
        let size = modulus.value();
        let turned =
            polar(size.pow(w.re) * (-(angle * w.im())).exp(), angle * w.re + modulus.ln() * w.im());
        // Zero has no logarithm, but some of its powers are defined.
        let real = w.im().equals(0.0);
        let nothing = size.equals(0.0) & real & w.re.greater(0.0);
        let one = real & w.re.equals(0.0);
        let re = one.select(1.0, nothing.select(0.0, turned.re));
        Number::complex(re, (one | nothing).select(0.0, turned.im()))
    })
}

#[track_caller]
fn polar<'f>(size: Num<'f>, angle: Num<'f>) -> Number<'f> {
    Number::complex(size * angle.cos(), size * angle.sin())
}

/// Returns the cosine of half the angle between a number and the real axis.
#[track_caller]
fn half_cosine<'f>(modulus: Modulus<'f>, wide: Num<'f>) -> Num<'f> {
    ((modulus.stretch + wide.select(1.0, modulus.ratio)) * 0.5).sqrt()
}

/// Returns the larger and the smaller part of the square root of |re| + |im|i.
#[track_caller]
pub(super) fn root_sides(z: Number<'_>) -> (Num<'_>, Num<'_>) {
    let modulus = Modulus::of(z);
    let (re, im) = modulus.sides;
    let long = modulus.larger.sqrt() * half_cosine(modulus, re.at_least(im));
    // Zero and infinity are their own square roots.
    let short = (im + im).equals(im).select(im, im / (long + long));
    (long, short)
}
