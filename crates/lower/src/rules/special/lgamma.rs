//! lgamma(x) → Lanczos' approximation, reflected for x < 1/2

use std::f64::consts::PI;

use crate::formula::Num;

/// Lanczos' coefficients for g = 7: the constant, and the numerators.
const CONSTANT: f64 = 0.9999999999998099;
const NUMERATORS: [f64; 8] = [
    676.5203681218851,
    -1259.1392167224028,
    771.3234287776531,
    -176.6150291621406,
    12.507343278686905,
    -0.13857109526572012,
    9.984369578019572e-6,
    1.5056327351493116e-7,
];
/// The constant g + 1/2.
const BASE: f64 = 7.5;
const LN_BASE: f64 = 2.0149030205422647;
const LN_PI: f64 = 1.1447298858494002;
const LN_SQRT_2_PI: f64 = 0.9189385332046728;

/// Computes the logarithm of the absolute value of the gamma function.
pub(crate) fn lgamma(x: Num<'_>) -> Num<'_> {
    let lanczos = Lanczos::at(x);
    let log_base = lanczos.log_base();
    let power = (lanczos.z + 0.5 - lanczos.base() / log_base) * log_base;
    let plain = power + LN_SQRT_2_PI + lanczos.sum().ln();
    // Γ(x) Γ(1 - x) = π / sin πx
    let size = x.abs();
    let fraction = size - size.floor();
    let reduced = fraction.min(1.0 - fraction);
    let mirrored = LN_PI - (reduced * PI).sin().ln() - plain;
    let mirrored = reduced.equals(0.0).select(f64::INFINITY, mirrored);
    let result = lanczos.reflected.select(mirrored, plain);
    x.is_inf().select(f64::INFINITY, result)
}

/// Lanczos' approximation at a point.
pub(crate) struct Lanczos<'f> {
    /// The mask of elements whose reflected point is approximated.
    pub(crate) reflected: Num<'f>,
    /// The approximated point, minus one.
    z: Num<'f>,
    /// The terms of the series and their denominators.
    terms: Vec<(Num<'f>, Num<'f>)>,
}

impl<'f> Lanczos<'f> {
    pub(crate) fn at(x: Num<'f>) -> Self {
        let reflected = x.less(0.5);
        let z = reflected.select(-x, x - 1.0);
        let terms = (1_u8..).zip(NUMERATORS).map(|(i, numerator)| {
            let denominator = z + f64::from(i);
            (numerator / denominator, denominator)
        });
        Self { reflected, terms: terms.collect(), z }
    }

    /// Returns `z + g + 1/2`.
    pub(crate) fn base(&self) -> Num<'f> {
        self.z + BASE
    }

    /// Returns the logarithm of the base.
    pub(crate) fn log_base(&self) -> Num<'f> {
        (self.z / BASE).ln_1p() + LN_BASE
    }

    /// Returns the sum of the series.
    pub(crate) fn sum(&self) -> Num<'f> {
        self.terms.iter().fold(self.z.constant(CONSTANT), |sum, (term, _)| sum + *term)
    }

    /// Returns the negated derivative of the series.
    pub(crate) fn negated_derivative(&self) -> Num<'f> {
        self.terms
            .iter()
            .fold(self.z.constant(0.0), |sum, (term, denominator)| sum + *term / *denominator)
    }
}
