//! reduce_precision[exponent_bits, mantissa_bits](x) → rounding of the bits of x as in XLA: to
//! nearest even, to infinity above the largest exponent, to zero at or below the smallest

use onnx::{Attrs, ValueId};
use tensor::DType;

use super::bitcast_convert_type::reinterpret;
use crate::formula::{Num, formulas};
use crate::{Context, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (exponent, mantissa): (u32, u32) = (bits(cx, "exponent_bits")?, bits(cx, "mantissa_bits")?);
    let dtype = cx.dtype(x[0]);
    let format = Format::of(dtype).ok_or_else(|| {
        RuleError::unsupported(format!("reducing the precision of {dtype} is not supported"))
    })?;
    if exponent >= format.exponent && mantissa >= format.mantissa {
        return Ok(vec![x[0]]);
    }
    if (dtype, mantissa) == (DType::F32, 7) && exponent >= format.exponent {
        let narrow = cx.cast(x[0], DType::BF16)?;
        return Ok(vec![cx.cast(narrow, dtype)?]);
    }
    let value = reinterpret(cx, x[0], dtype.unsigned())?;
    let [value] = formulas(cx, [value], |[mut value]| {
        if mantissa < format.mantissa {
            value = format.round(value, format.mantissa - mantissa);
        }
        if exponent < format.exponent {
            value = format.limit(value, exponent);
        }
        [value]
    })?;
    let value = reinterpret(cx, value, dtype)?;
    let nan = cx.op("IsNaN", x, Attrs::new())?;
    Ok(vec![cx.op("Where", &[nan, x[0], value], Attrs::new())?])
}

fn bits(cx: &Context<'_>, name: &str) -> Result<u32> {
    let count: usize = cx.param(name)?;
    u32::try_from(count)
        .map_err(|_| RuleError::unsupported(format!("{name} = {count} is not supported")))
}

/// The number of exponent and mantissa bits of a float.
#[derive(Clone, Copy, Debug)]
struct Format {
    exponent: u32,
    mantissa: u32,
}

impl Format {
    fn of(dtype: DType) -> Option<Self> {
        let (exponent, mantissa) = dtype.float_fields()?;
        Some(Self { exponent, mantissa })
    }

    /// Rounds away `dropped` bits of the mantissa. An overflow carries into the exponent, as it
    /// should.
    fn round(self, x: Num<'_>, dropped: u32) -> Num<'_> {
        let last = 1u64 << dropped;
        let odd = (x >> u64::from(dropped)) & 1_u64;
        let bias = odd + ((last >> 1) - 1);
        (x + bias) & (self.all() & !(last - 1))
    }

    /// Replaces numbers that do not fit an exponent of `bits` with infinities and zeros.
    fn limit(self, x: Num<'_>, bits: u32) -> Num<'_> {
        let bias = |bits: u32| (1u64 << (bits - 1)) - 1;
        let field = ((1u64 << self.exponent) - 1) << self.mantissa;
        let sign = 1u64 << (self.exponent + self.mantissa);
        let largest = (bias(self.exponent) + bias(bits)) << self.mantissa;
        let smallest = (bias(self.exponent) - bias(bits)) << self.mantissa;
        let (exponent, zero) = (x & field, x & sign);
        let infinity = zero | field;
        let (over, under) = (exponent.greater(largest), exponent.at_most(smallest));
        under.select(zero, over.select(infinity, x))
    }

    /// Returns a word of ones.
    fn all(self) -> u64 {
        u64::MAX >> (63 - self.exponent - self.mantissa)
    }
}
