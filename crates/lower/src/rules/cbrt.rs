//! cbrt(x) → Sign(x) · Pow(|x|, 1/3), with one Newton step: a third is no float

use onnx::ValueId;

use super::Result;
use crate::Context;
use crate::formula::formula;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[x]| {
        let size = x.abs();
        let guess = size.pow(1.0 / 3.0);
        let refined = (guess * 2.0 + size / guess.squared()) / 3.0;
        // The step divides zero by zero and infinity by infinity: there the guess is exact.
        let exact = size.equals(0.0) | size.equals(f64::INFINITY);
        x.sign() * exact.select(guess, refined)
    })
}
