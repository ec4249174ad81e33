//! nextafter(x, y) → x plus or minus about one unit in the last place, rounded

use onnx::ValueId;
use tensor::DType;

use crate::formula::{Num, formula};
use crate::rules::Result;
use crate::{Context, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let dtype = cx.dtype(x[0]);
    let Some(float) = Float::of(dtype) else {
        return Err(RuleError::unsupported(format!("`nextafter` of {dtype} is not supported")));
    };
    // Narrower types take the step in a wider type, and the conversion back rounds.
    let wide = if dtype == DType::F32 { DType::F64 } else { dtype };
    let operands = [cx.cast(x[0], wide)?, cx.cast(x[1], wide)?];
    formula(cx, &operands, |[x, y]| float.step(x, y))
}

/// The parameters of a floating-point type.
struct Float {
    /// The number of significant binary digits. The point comes after the first.
    places: i32,
    /// The binary logarithm of the smallest number.
    smallest: i32,
    largest: f64,
    /// `true` if no wider type exists.
    widest: bool,
}

impl Float {
    fn of(dtype: DType) -> Option<Self> {
        let (places, smallest, largest) = match dtype {
            DType::F16 => (11, -24, 65504.0),
            DType::BF16 => (8, -133, 3.3895313892515355e38),
            DType::F32 => (24, -149, f64::from(f32::MAX)),
            DType::F64 => (53, -1074, f64::MAX),
            _ => return None,
        };
        Some(Self { places, smallest, largest, widest: dtype == DType::F64 })
    }

    fn step<'f>(&self, x: Num<'f>, y: Num<'f>) -> Num<'f> {
        // If the type cannot represent a fraction of the smallest number, everything is scaled up.
        let scale = if self.widest { 110 } else { 0 };
        let scaled = self.widest.then(|| {
            let small = x.abs().less(exp2(self.smallest + self.places + 2 * scale));
            small.select(x.constant(exp2(scale)), 1.0)
        });
        let from = scaled.map_or(x, |scale| x * scale);
        // Between 5/8 and 5/4 of the last place, or 4/5 of the smallest number; both round to one
        // unit.
        let place = from.abs() * (1.25 * exp2(-self.places));
        let step = place.max(0.8 * exp2(self.smallest + scale));
        let next = from + y.greater(x).select(step, -step);
        let next = scaled.map_or(next, |scale| next / scale);
        let next = x.is_inf().select(x.sign() * self.largest, next);
        let next = x.equals(y).select(y, next);
        y.is_nan().select(y, next)
    }
}

fn exp2(exponent: i32) -> f64 {
    2_f64.powi(exponent)
}
