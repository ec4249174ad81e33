//! Asin, Acos, Atan and Tan in double precision.
//!
//! An inverse function is the angle of a point. The single-precision operator gives that angle
//! to seven digits; rotating the point back by it leaves an angle so small that its sine, which is
//! a difference of products, gives all the others.

use onnx::{Builder, Node, ValueId};

use super::{Lack, Real, operand};

/// The angle whose sine is `x`: that of the point (√(1 - x²), x).
pub(super) fn asin(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let across = adjacent(&mut f, x)?;
    refine(&mut f, "Asin", x, (across, x))
}

/// The angle whose cosine is `x`: that of the point (x, √(1 - x²)).
pub(super) fn acos(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let up = adjacent(&mut f, x)?;
    refine(&mut f, "Acos", x, (x, up))
}

/// √(1 - x²), exact near 1 as well.
fn adjacent(f: &mut Real<'_, '_>, x: ValueId) -> onnx::Result<ValueId> {
    let less = f.sub(1.0, x)?;
    let more = f.add(1.0, x)?;
    let product = f.mul(less, more)?;
    f.sqrt(product)
}

/// The angle of the point on the unit circle, of which `op` at `x` is an approximation.
fn refine(
    f: &mut Real<'_, '_>,
    op: &'static str,
    x: ValueId,
    (across, up): (ValueId, ValueId),
) -> Result<Vec<ValueId>, Lack> {
    let start = f.in_single(op, x)?;
    let (sin, cos) = (f.sin(start)?, f.cos(start)?);
    let left = f.mul(up, cos)?;
    let right = f.mul(across, sin)?;
    let rest = f.sub(left, right)?;
    // Near 1 single precision is off by up to 3e-4, where the sine and its angle differ.
    let square = f.mul(rest, rest)?;
    let cube = f.mul(square, rest)?;
    let sixth = f.div(cube, 6.0)?;
    let angle = f.add(rest, sixth)?;
    Ok(vec![f.add(start, angle)?])
}

/// From here on the arc tangent is a right angle in double precision.
const STEEP: f64 = 1e17;

/// The angle of the point (1, x); the rest is small enough to be its own tangent.
pub(super) fn atan(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let start = f.in_single("Atan", x)?;
    let x = f.clip(x, -STEEP, STEEP)?;
    let (sin, cos) = (f.sin(start)?, f.cos(start)?);
    let product = f.mul(x, cos)?;
    let up = f.sub(product, sin)?;
    let product = f.mul(x, sin)?;
    let across = f.add(cos, product)?;
    let rest = f.div(up, across)?;
    Ok(vec![f.add(start, rest)?])
}

pub(super) fn tan(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let (sin, cos) = (f.sin(x)?, f.cos(x)?);
    Ok(vec![f.div(sin, cos)?])
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
