//! cbrt(x) → Sign(x) · Pow(|x|, 1/3), with one Newton step, since 1/3 is not a float

use crate::formula::Num;

pub(crate) fn lower(x: Num<'_>) -> Num<'_> {
    let size = x.abs();
    let guess = size.pow(1.0 / 3.0);
    let refined = (guess * 2.0 + size / guess.squared()) / 3.0;
    // The step divides infinity by infinity; zeros, which have signs, are their own cube roots.
    let exact = size.equals(f64::INFINITY);
    size.greater(0.0).select(x.sign() * exact.select(guess, refined), x)
}
