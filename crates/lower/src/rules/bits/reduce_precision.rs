//! reduce_precision[exponent_bits, mantissa_bits](x) → rounding of the bits of x, as XLA does it: to
//! nearest even, to infinity above the largest exponent, to zero up to the smallest

use onnx::{Attrs, ValueId};
use tensor::DType;

use super::bitcast_convert_type::reinterpret;
use super::unsigned_words::{add, and, or, right, unsigned, word};
use crate::rules::Result;
use crate::{Context, RuleError};

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
    let word = unsigned(dtype);
    let mut value = reinterpret(cx, x[0], word)?;
    if mantissa < format.mantissa {
        value = format.round(cx, value, format.mantissa - mantissa)?;
    }
    if exponent < format.exponent {
        value = format.limit(cx, value, exponent)?;
    }
    let value = reinterpret(cx, value, dtype)?;
    let nan = cx.op("IsNaN", x, Attrs::new())?;
    Ok(vec![cx.op("Where", &[nan, x[0], value], Attrs::new())?])
}

fn bits(cx: &Context<'_>, name: &str) -> Result<u32> {
    let count: usize = cx.param(name)?;
    u32::try_from(count)
        .map_err(|_| RuleError::unsupported(format!("{name} = {count} is not supported")))
}

/// How many bits of a float are the exponent and the mantissa.
#[derive(Clone, Copy, Debug)]
struct Format {
    dtype: DType,
    exponent: u32,
    mantissa: u32,
}

impl Format {
    fn of(dtype: DType) -> Option<Self> {
        let (exponent, mantissa) = match dtype {
            DType::F16 => (5, 10),
            DType::BF16 => (8, 7),
            DType::F32 => (8, 23),
            DType::F64 => (11, 52),
            _ => return None,
        };
        Some(Self { dtype: unsigned(dtype), exponent, mantissa })
    }

    /// Rounds `dropped` bits of the mantissa away. What overflows goes into the exponent, where it
    /// belongs.
    fn round(self, cx: &mut Context<'_>, x: ValueId, dropped: u32) -> Result<ValueId> {
        let last = 1u64 << dropped;
        let amount = word(cx, self.dtype, u64::from(dropped))?;
        let one = word(cx, self.dtype, 1)?;
        let odd = right(cx, x, amount)?;
        let odd = and(cx, odd, one)?;
        let below_half = word(cx, self.dtype, (last >> 1) - 1)?;
        let bias = add(cx, odd, below_half)?;
        let kept = word(cx, self.dtype, self.all() & !(last - 1))?;
        let rounded = add(cx, x, bias)?;
        and(cx, rounded, kept)
    }

    /// Replaces what does not fit an exponent of `bits` by infinities and zeros.
    fn limit(self, cx: &mut Context<'_>, x: ValueId, bits: u32) -> Result<ValueId> {
        let bias = |bits: u32| (1u64 << (bits - 1)) - 1;
        let field = ((1u64 << self.exponent) - 1) << self.mantissa;
        let sign = 1u64 << (self.exponent + self.mantissa);
        let largest = (bias(self.exponent) + bias(bits)) << self.mantissa;
        let smallest = (bias(self.exponent) - bias(bits)) << self.mantissa;
        let [field, sign, largest, smallest] =
            [field, sign, largest, smallest].map(|value| word(cx, self.dtype, value));
        let field = field?;
        let exponent = and(cx, x, field)?;
        let zero = and(cx, x, sign?)?;
        let infinity = or(cx, zero, field)?;
        let over = cx.op("Greater", &[exponent, largest?], Attrs::new())?;
        let under = cx.op("LessOrEqual", &[exponent, smallest?], Attrs::new())?;
        let x = cx.op("Where", &[over, infinity, x], Attrs::new())?;
        Ok(cx.op("Where", &[under, zero, x], Attrs::new())?)
    }

    /// A word of ones.
    fn all(self) -> u64 {
        u64::MAX >> (64 - self.dtype.bits())
    }
}
