//! sin, cos, tan, sinh, cosh, tanh: the circular functions are rotated hyperbolic functions

use super::exponential::zero_with;
use crate::formula::number::Number;

#[track_caller]
pub(in crate::rules) fn sinh(z: Number<'_>) -> Number<'_> {
    let (x, y) = (z.re, z.im());
    Number::complex(x.sinh() * y.cos(), zero_with(y, x.cosh() * y.sin()))
}

#[track_caller]
pub(in crate::rules) fn cosh(z: Number<'_>) -> Number<'_> {
    let (x, y) = (z.re, z.im());
    Number::complex(x.cosh() * y.cos(), zero_with(y, x.sinh() * y.sin()))
}

/// Computes (sinh x cosh x + i sin y cos y) / (sinh² x + cos² y).
#[track_caller]
pub(in crate::rules) fn tanh(z: Number<'_>) -> Number<'_> {
    // Beyond this, the result rounds to ±1, but the hyperbolic functions overflow.
    const FAR: f64 = 40.0;
    let (x, y) = (z.re, z.im());
    let far = x.abs().greater(FAR);
    let near = x.max(-FAR).min(FAR);
    let (sinh, cosh, sin, cos) = (near.sinh(), near.cosh(), y.sin(), y.cos());
    let divisor = sinh * sinh + cos * cos;
    let re = far.select(x.sign(), sinh * cosh / divisor);
    Number::complex(re, far.select(0.0, sin * cos / divisor))
}

pub(in crate::rules) fn sin(z: Number<'_>) -> Number<'_> {
    sinh(z.turned_left()).turned_right()
}

pub(in crate::rules) fn cos(z: Number<'_>) -> Number<'_> {
    cosh(z.turned_left())
}

pub(in crate::rules) fn tan(z: Number<'_>) -> Number<'_> {
    tanh(z.turned_left()).turned_right()
}
