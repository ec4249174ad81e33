//! nextafter(x, y) → x plus or minus about one unit in the last place, rounded

use onnx::ValueId;
use tensor::DType;

use crate::formula::{Num, formula};
use crate::{Context, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    let Some(float) = Float::of(dtype) else {
        return Err(RuleError::unsupported(format!("`nextafter` of {dtype} is not supported")));
    };
    let infinite = |sign: f64| cx.repeats(x[1], sign * f64::INFINITY);
    let upwards = infinite(1.0).then_some(true).or(infinite(-1.0).then_some(false));
    // The conversion back to a narrower type rounds.
    let operands = [cx.cast(x[0], DType::F64)?, cx.cast(x[1], DType::F64)?];
    let next = formula(cx, &operands, |[x, y]| float.step(x, y, upwards))?;
    Ok(vec![cx.cast(next[0], dtype)?])
}

/// The parameters of a floating-point type.
struct Float {
    /// The number of significant binary digits. The point comes after the first.
    places: i32,
    /// The binary logarithm of the smallest number.
    smallest: i32,
    /// The binary logarithm of the first number that is too large.
    end: i32,
}

impl Float {
    fn of(dtype: DType) -> Option<Self> {
        let (places, smallest, end) = match dtype {
            DType::F16 => (11, -24, 16),
            DType::BF16 => (8, -133, 128),
            DType::F32 => (24, -149, 128),
            DType::F64 => (53, -1074, 1024),
            _ => return None,
        };
        Some(Self { places, smallest, end })
    }

    /// Returns the number after `x` in the direction of `y`, which is infinite if `upwards` is known.
    fn step<'f>(&self, x: Num<'f>, y: Num<'f>, upwards: Option<bool>) -> Num<'f> {
        // A wider type has room for fractions of the smallest number and for numbers that are too
        // large. The widest type has that room after scaling.
        if self.end < 1024 {
            return self.scaled_step(x, y, upwards, [self.smallest, self.end]);
        }
        let scale = 110;
        let factor = x.abs().less(1.0).select(x.constant(exp2(scale)), exp2(-scale));
        let ends = [self.smallest + scale, self.end - scale];
        self.scaled_step(x * factor, y * factor, upwards, ends) / factor
    }

    fn scaled_step<'f>(
        &self,
        x: Num<'f>,
        y: Num<'f>,
        upwards: Option<bool>,
        [smallest, end]: [i32; 2],
    ) -> Num<'f> {
        // Infinities become the first number that is too large. The step down from there gives the
        // largest number.
        let end = exp2(end);
        let from = match upwards {
            Some(true) => x.max(-end),
            Some(false) => x.min(end),
            None => x.max(-end).min(end),
        };
        // Between 5/8 and 5/4 of the last place, or 4/5 of the smallest number; both round to one
        // unit.
        let step = (from.abs() * (1.25 * exp2(-self.places))).max(0.8 * exp2(smallest));
        match upwards {
            Some(true) => from + step,
            Some(false) => from - step,
            None => from + (y.max(-end).min(end) - from).sign() * step,
        }
    }
}

fn exp2(exponent: i32) -> f64 {
    2_f64.powi(exponent)
}
