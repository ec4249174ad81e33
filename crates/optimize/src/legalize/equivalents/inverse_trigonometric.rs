//! `Asin`, `Acos`, `Atan` and `Tan` in double precision.
//!
//! An inverse function is the angle of a point. The single-precision operator computes that angle
//! to seven digits. Rotating the point back by it leaves a small angle. Its sine, a difference of
//! products, provides the remaining digits.

use onnx::formula::Num;
use onnx::{Builder, Node};

use super::{Results, formula};

/// Computes the angle whose sine is `x`, which is that of the point (√(1 - x²), x).
pub(super) fn asin(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| refine("Asin", x, (adjacent(x), x)))
}

/// Computes the angle whose cosine is `x`, which is that of the point (x, √(1 - x²)).
pub(super) fn acos(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| refine("Acos", x, (x, adjacent(x))))
}

/// Computes √(1 - x²), which is also exact near 1.
fn adjacent(x: Num<'_>) -> Num<'_> {
    ((1.0 - x) * (1.0 + x)).sqrt()
}

/// Computes the angle of a point on the unit circle. The result of `op` at `x` approximates it.
fn refine<'f>(op: &'static str, x: Num<'f>, (across, up): (Num<'f>, Num<'f>)) -> Num<'f> {
    let start = x.in_single(op);
    let (sin, cos) = (start.sin(), start.cos());
    let rest = up * cos - across * sin;
    // Near 1, single precision is off by up to 3e-4, where the sine and its angle differ.
    let angle = rest + rest.squared() * rest / 6.0;
    start + angle
}

/// The argument above which the arc tangent is a right angle in double precision.
const STEEP: f64 = 1e17;

/// Computes the angle of the point (1, x). The remaining angle is so small that it equals its
/// tangent.
pub(super) fn atan(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| {
        let start = x.in_single("Atan");
        let x = x.clip(-STEEP, STEEP);
        let (sin, cos) = (start.sin(), start.cos());
        start + (x * cos - sin) / (cos + x * sin)
    })
}

pub(super) fn tan(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| x.sin() / x.cos())
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::assert_f64;

    const SMALL: [f64; 6] = [1e-300, -1e-30, 1e-9, -0.1, 0.5, -0.75];

    #[test]
    fn they_are_accurate_everywhere() {
        let near_one = (1..16).map(|n| 1.0 - 10f64.powi(-n)).chain([1.0]);
        let inside: Vec<f64> = near_one.flat_map(|x| [x, -x]).chain(SMALL).collect();
        assert_f64("Asin", &inside, f64::asin);
        assert_f64("Acos", &inside, f64::acos);
        let large = [1.0, -2.5, 1e3, -1e9, 1e17, -1e200, f64::INFINITY, f64::NEG_INFINITY];
        let all: Vec<f64> = SMALL.into_iter().chain(large).collect();
        assert_f64("Atan", &all, f64::atan);
        assert_f64("Tan", &[1e-300, 0.1, -1.5, 3.0, 100.0], f64::tan);
    }

    #[test]
    fn outside_is_not_a_number() {
        for x in [1.5, -2.0, f64::INFINITY, f64::NAN] {
            assert_f64("Asin", &[x], f64::asin);
            assert_f64("Acos", &[x], f64::acos);
        }
        assert_f64("Atan", &[f64::NAN], f64::atan);
    }
}
