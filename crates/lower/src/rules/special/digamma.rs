//! digamma(x) → the derivative of Lanczos' approximation of lgamma, reflected for x < 1/2

use std::f64::consts::PI;

use super::lgamma::Lanczos;
use crate::formula::Num;

/// Computes the derivative of the logarithm of the gamma function, which is NaN at its poles.
pub(crate) fn digamma(x: Num<'_>) -> Num<'_> {
    let lanczos = Lanczos::at(x);
    let plain =
        lanczos.log_base() - lanczos.negated_derivative() / lanczos.sum() - 7.0 / lanczos.base();
    // ψ(1 - x) = ψ(x) + π cot πx, with the argument reduced to half a period.
    let angle = (x - (x + 0.5).floor()) * PI;
    let mirrored = plain - angle.cos() / angle.sin() * PI;
    let result = lanczos.reflected.select(mirrored, plain);
    let at_pole = x.at_most(0.0) & x.equals(x.floor());
    at_pole.select(f64::NAN, result)
}
