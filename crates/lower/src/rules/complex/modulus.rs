//! abs, sign: |z| = larger part · √(1 + (smaller part / larger part)²), whose squares cannot overflow

use crate::formula::Num;
use crate::formula::number::Number;

pub(in crate::rules) fn abs(z: Number<'_>) -> Number<'_> {
    Modulus::of(z).value().into()
}

pub(in crate::rules) fn sign(z: Number<'_>) -> Number<'_> {
    let size = Modulus::of(z).value();
    let divisor = size.equals(0.0).select(1.0, size);
    z.each(|part| part / divisor)
}

/// The factors of a number's modulus.
#[derive(Clone, Copy)]
pub(super) struct Modulus<'f> {
    /// |re| and |im|.
    pub(super) sides: (Num<'f>, Num<'f>),
    pub(super) larger: Num<'f>,
    pub(super) smaller: Num<'f>,
    /// The smaller side divided by the larger one, from 0 to 1.
    pub(super) ratio: Num<'f>,
    /// The modulus divided by the larger side, from 1 to √2.
    pub(super) stretch: Num<'f>,
}

impl<'f> Modulus<'f> {
    #[track_caller]
    pub(super) fn of(z: Number<'f>) -> Self {
        let sides = (z.re.abs(), z.im().abs());
        let (larger, smaller) = (sides.0.max(sides.1), sides.0.min(sides.1));
        // The ratio of two zeros or two infinities is undefined.
        let divisor = larger.equals(0.0).select(1.0, larger);
        let ratio = smaller.equals(f64::INFINITY).select(1.0, smaller / divisor);
        let stretch = (ratio * ratio + 1.0).sqrt();
        Self { sides, larger, smaller, ratio, stretch }
    }

    #[track_caller]
    pub(super) fn value(self) -> Num<'f> {
        self.larger * self.stretch
    }

    /// Returns the logarithm of the modulus.
    #[track_caller]
    pub(super) fn ln(self) -> Num<'f> {
        let Self { larger, smaller, .. } = self;
        let far = larger.ln() + self.stretch.ln();
        // Near 1, the square differs from 1 only by (larger - 1)(larger + 1) + smaller².
        let near = ((larger - 1.0) * (larger + 1.0) + smaller * smaller).ln_1p() * 0.5;
        (larger.greater(0.5) & larger.less(2.0)).select(near, far)
    }
}
