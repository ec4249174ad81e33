//! The bits of floats, for opsets without an operator that returns them. Arithmetic in double
//! precision is exact for narrower types, but cannot distinguish NaNs: all become the same one.

use std::f64::consts::LN_2;

use onnx::formula::{Num, formulas};
use onnx::{Builder, Node};
use tensor::DType;

use super::{Lack, Results, operand};

pub(in crate::legalize) fn bit_cast(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let (from, to) = (b.dtype(x), b.dtype(node.outputs[0]));
    let known = |dtype: DType| dtype.is_integer() || Format::of(dtype).is_some();
    if !known(from) || !known(to) {
        return Err(Lack::Because("its bits cannot be computed in double precision"));
    }
    let [result] = formulas(b, [x], |[x]| {
        let integers = match Format::of(from) {
            Some(format) => format.bits(x),
            None => x.cast(from.unsigned()),
        };
        [match Format::of(to) {
            Some(format) => format.float(integers, to),
            None => integers.cast(to),
        }]
    })?;
    Ok(vec![result])
}

/// The numbers of exponent and fraction bits of a float, and an integer type of the same width.
#[derive(Clone, Copy)]
struct Format {
    exponent: i32,
    fraction: i32,
    word: DType,
}

impl Format {
    fn of(dtype: DType) -> Option<Self> {
        let (exponent, fraction) = dtype.float_fields().filter(|_| dtype != DType::F64)?;
        let (exponent, fraction) = (exponent.cast_signed(), fraction.cast_signed());
        Some(Self { exponent, fraction, word: dtype.unsigned() })
    }

    fn bias(self) -> f64 {
        exp2(self.exponent - 1) - 1.0
    }

    fn sign(self) -> f64 {
        exp2(self.exponent + self.fraction)
    }

    /// Returns the stored exponent of infinities and NaN.
    fn special(self) -> f64 {
        exp2(self.exponent) - 1.0
    }

    fn bits(self, x: Num<'_>) -> Num<'_> {
        let (least, most) = (1.0 - self.bias(), self.bias());
        let x = x.cast(DType::F64);
        let size = x.abs();
        // The logarithm may be rounded to the wrong side of an integer.
        let guess = (size.ln() / LN_2).floor().clip(least - 1.0, most);
        let power = guess.constant(2.0).pow(guess);
        let (below, above) = (size.less(power), size.at_least(power * 2.0));
        let (lower, higher) = (guess - 1.0, guess + 1.0);
        let exponent = above.select(higher, below.select(lower, guess)).max(least);

        let fraction = size * x.constant(2.0).pow(f64::from(self.fraction) - exponent);
        // The implicit leading bit of the fraction adds the missing one.
        let number = (exponent + (self.bias() - 1.0)) * exp2(self.fraction) + fraction;
        let infinity = self.special() * exp2(self.fraction);
        let (is_nan, is_infinite) = (x.is_nan(), x.is_inf());
        let number = is_infinite.select(infinity, number);
        let number = is_nan.select(infinity + exp2(self.fraction - 1), number);

        let behind = 1.0 / x;
        let negative = x.less(0.0) | behind.less(0.0);
        let number = negative.select(number + self.sign(), number);
        number.cast(DType::I64).cast(self.word)
    }

    fn float(self, integers: Num<'_>, to: DType) -> Num<'_> {
        let number = integers.cast(DType::F64);
        let positive = number.less(self.sign());
        let number = positive.select(number, number - self.sign());
        let stored = (number * exp2(-self.fraction)).floor();
        let fraction = number - stored * exp2(self.fraction);
        let factor = stored.greater(0.0).select(fraction + exp2(self.fraction), fraction);
        let exponent = stored.max(1.0) - (self.bias() + f64::from(self.fraction));
        let value = factor * exponent.constant(2.0).pow(exponent);
        let (special, empty) = (stored.equals(self.special()), fraction.equals(0.0));
        let other = empty.select(f64::INFINITY, value.constant(f64::NAN));
        let value = special.select(other, value);
        positive.select(value, -value).cast(to)
    }
}

fn exp2(exponent: i32) -> f64 {
    2_f64.powi(exponent)
}
