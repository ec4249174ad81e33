//! The bits of floats, where there is no operator that gives them. Arithmetic in double precision is
//! exact for narrower types, but cannot tell one NaN from another: all become the same one.

use onnx::{Attrs, Builder, Node, Result, ValueId};
use tensor::{DType, Kind};

use super::{Lack, Real, operand};

type Results = std::result::Result<Vec<ValueId>, Lack>;

pub(super) fn bit_cast(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let (from, to) = (b.dtype(x), b.dtype(node.outputs[0]));
    let known = |dtype: DType| dtype.is_integer() || Format::of(dtype).is_some();
    if !known(from) || !known(to) {
        return Err(Lack::Because("its bits cannot be computed in double precision"));
    }
    let integers = match Format::of(from) {
        Some(format) => format.bits(b, x)?,
        None => b.cast(x, unsigned(from))?,
    };
    Ok(vec![match Format::of(to) {
        Some(format) => format.float(b, integers, to)?,
        None => b.cast(integers, to)?,
    }])
}

fn unsigned(dtype: DType) -> DType {
    match dtype {
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        other => other,
    }
}

/// How many bits of a float are its exponent and its fraction, and an integer for all of them.
#[derive(Clone, Copy)]
struct Format {
    exponent: i32,
    fraction: i32,
    word: DType,
}

impl Format {
    fn of(dtype: DType) -> Option<Self> {
        let (exponent, fraction, word) = match dtype {
            DType::F16 => (5, 10, DType::U16),
            DType::BF16 => (8, 7, DType::U16),
            DType::F32 => (8, 23, DType::U32),
            _ => return None,
        };
        Some(Self { exponent, fraction, word })
    }

    fn bias(self) -> f64 {
        exp2(self.exponent - 1) - 1.0
    }

    fn sign(self) -> f64 {
        exp2(self.exponent + self.fraction)
    }

    /// The exponent of infinities and NaN, as it is stored.
    fn special(self) -> f64 {
        exp2(self.exponent) - 1.0
    }

    fn bits(self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        let (least, most) = (1.0 - self.bias(), self.bias());
        let x = b.cast(x, DType::F64)?;
        let mut r = Real(b);
        let size = r.abs(x)?;
        // The logarithm may be rounded to the wrong side of an integer.
        let logarithm = r.log(size)?;
        let logarithm = r.div(logarithm, std::f64::consts::LN_2)?;
        let guess = r.floor(logarithm)?;
        let guess = r.clip(guess, least - 1.0, most)?;
        let power = r.pow(2.0, guess)?;
        let (below, double) = (r.less(size, power)?, r.mul(power, 2.0)?);
        let above = r.not_less(size, double)?;
        let lower = r.sub(guess, 1.0)?;
        let higher = r.add(guess, 1.0)?;
        let exponent = r.select(below, lower, guess)?;
        let exponent = r.select(above, higher, exponent)?;
        let exponent = r.max(exponent, least)?;

        let shift = r.sub(f64::from(self.fraction), exponent)?;
        let unit = r.pow(2.0, shift)?;
        let fraction = r.mul(size, unit)?;
        // The first bit of the fraction, which is not stored, adds the one that is missing here.
        let stored = r.add(exponent, self.bias() - 1.0)?;
        let stored = r.mul(stored, exp2(self.fraction))?;
        let number = r.add(stored, fraction)?;
        let infinity = self.special() * exp2(self.fraction);
        let (is_nan, is_infinite) = (r.is_nan(x)?, r.is_inf(x)?);
        let number = r.select(is_infinite, infinity, number)?;
        let number = r.select(is_nan, infinity + exp2(self.fraction - 1), number)?;

        let inverse = r.div(1.0, x)?;
        let (negative, behind) = (r.less(x, 0.0)?, r.less(inverse, 0.0)?);
        let negative = b.op("Or", &[negative, behind], Attrs::new())?;
        let mut r = Real(b);
        let signed = r.add(number, self.sign())?;
        let number = r.select(negative, signed, number)?;
        let integer = b.cast(number, DType::I64)?;
        b.cast(integer, self.word)
    }

    fn float(self, b: &mut Builder<'_>, integers: ValueId, to: DType) -> Result<ValueId> {
        debug_assert!(b.dtype(integers).kind() == Kind::Unsigned);
        let number = b.cast(integers, DType::F64)?;
        let mut r = Real(b);
        let positive = r.less(number, self.sign())?;
        let rest = r.sub(number, self.sign())?;
        let number = r.select(positive, number, rest)?;
        let stored = r.mul(number, exp2(-self.fraction))?;
        let stored = r.floor(stored)?;
        let whole = r.mul(stored, exp2(self.fraction))?;
        let fraction = r.sub(number, whole)?;
        let (normal, complete) = (r.greater(stored, 0.0)?, r.add(fraction, exp2(self.fraction))?);
        let factor = r.select(normal, complete, fraction)?;
        let exponent = r.max(stored, 1.0)?;
        let exponent = r.sub(exponent, self.bias() + f64::from(self.fraction))?;
        let power = r.pow(2.0, exponent)?;
        let value = r.mul(factor, power)?;
        let (special, empty) = (r.equal(stored, self.special())?, r.equal(fraction, 0.0)?);
        let nan = r.0.scalar(DType::F64, f64::NAN)?;
        let other = r.select(empty, f64::INFINITY, nan)?;
        let value = r.select(special, other, value)?;
        let opposite = r.neg(value)?;
        let value = r.select(positive, value, opposite)?;
        b.cast(value, to)
    }
}

fn exp2(exponent: i32) -> f64 {
    2_f64.powi(exponent)
}
