//! sin, cos, tan, sinh, cosh, tanh: the circular functions are rotated hyperbolic functions

use super::exponential::zero_with;
use crate::formula::number::{Number, unary};
use crate::{Context, Parts, Result};

pub(in crate::rules) fn sinh(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.sinh())
}

pub(in crate::rules) fn cosh(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.cosh())
}

pub(in crate::rules) fn tanh(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.tanh())
}

pub(in crate::rules) fn sin(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.turned_left().sinh().turned_right())
}

pub(in crate::rules) fn cos(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.turned_left().cosh())
}

pub(in crate::rules) fn tan(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    unary(cx, x, |z| z.turned_left().tanh().turned_right())
}

impl<'f> Number<'f> {
    #[track_caller]
    fn sinh(self) -> Self {
        let (x, y) = (self.re, self.im());
        Number::complex(x.sinh() * y.cos(), zero_with(y, x.cosh() * y.sin()))
    }

    #[track_caller]
    fn cosh(self) -> Self {
        let (x, y) = (self.re, self.im());
        Number::complex(x.cosh() * y.cos(), zero_with(y, x.sinh() * y.sin()))
    }

    /// Computes (sinh x cosh x + i sin y cos y) / (sinh² x + cos² y).
    #[track_caller]
    fn tanh(self) -> Self {
        // Beyond this, the result rounds to ±1, but the hyperbolic functions overflow.
        const FAR: f64 = 40.0;
        let (x, y) = (self.re, self.im());
        let far = x.abs().greater(FAR);
        let near = x.max(-FAR).min(FAR);
        let (sinh, cosh, sin, cos) = (near.sinh(), near.cosh(), y.sin(), y.cos());
        let divisor = sinh * sinh + cos * cos;
        let re = far.select(x.sign(), sinh * cosh / divisor);
        Number::complex(re, far.select(0.0, sin * cos / divisor))
    }
}
