//! Asinh, Acosh and Atanh in double precision, as logarithms of one plus something.

use onnx::{Builder, Node, Result, ValueId};

use super::{Lack, Real, operand};

/// From here on `asinh` and `acosh` are `log(2x)`, and squares could overflow further out.
const LARGE: f64 = 1e8;

/// `near`, or `log(2x)` where `x` is large.
fn unless_large(f: &mut Real<'_, '_>, x: ValueId, near: ValueId) -> Result<ValueId> {
    let log = f.log(x)?;
    let far = f.add(log, std::f64::consts::LN_2)?;
    let is_far = f.greater(x, LARGE)?;
    f.select(is_far, far, near)
}

/// `log(|x| + √(x² + 1))` with the sign of `x`.
pub(super) fn asinh(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let size = f.abs(x)?;
    let square = f.mul(size, size)?;
    let more = f.add(square, 1.0)?;
    let root = f.sqrt(more)?;
    let below = f.add(root, 1.0)?;
    // √(x² + 1) - 1
    let excess = f.div(square, below)?;
    let sum = f.add(size, excess)?;
    let near = f.log1p(sum)?;
    let result = unless_large(&mut f, size, near)?;
    let sign = f.sign(x)?;
    Ok(vec![f.mul(result, sign)?])
}

/// `log(x + √(x² - 1))`.
pub(super) fn acosh(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let above = f.sub(x, 1.0)?;
    let more = f.add(x, 1.0)?;
    let product = f.mul(above, more)?;
    let root = f.sqrt(product)?;
    let sum = f.add(above, root)?;
    let near = f.log1p(sum)?;
    let result = unless_large(&mut f, x, near)?;
    let outside = f.less(x, 1.0)?;
    Ok(vec![f.select(outside, f64::NAN, result)?])
}

/// `log((1 + |x|) / (1 - |x|)) / 2` with the sign of `x`.
pub(super) fn atanh(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let size = f.abs(x)?;
    let twice = f.mul(size, 2.0)?;
    let below = f.sub(1.0, size)?;
    let quotient = f.div(twice, below)?;
    let log = f.log1p(quotient)?;
    let sign = f.sign(x)?;
    let half = f.mul(sign, 0.5)?;
    Ok(vec![f.mul(log, half)?])
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::assert_f64;

    // The standard library's are themselves logarithms with losses near zero.
    fn asinh(x: f64) -> f64 {
        if x.abs() < 1e-3 { x - x.powi(3) / 6.0 + 0.075 * x.powi(5) } else { x.asinh() }
    }

    fn atanh(x: f64) -> f64 {
        if x.abs() < 1e-3 { x + x.powi(3) / 3.0 + x.powi(5) / 5.0 } else { x.atanh() }
    }

    #[test]
    fn they_are_accurate_everywhere() {
        let some = [0.0, 1e-300, 1e-12, 1e-5, 0.1, 0.9, 1.5, 30.0, 1e7, 1e9, 1e200, f64::INFINITY];
        let all: Vec<f64> = some.into_iter().flat_map(|x| [x, -x]).collect();
        assert_f64("Asinh", &all, asinh);
        assert_f64("Acosh", &[1.0, 1.5, 2.0, 30.0, 1e7, 1e9, 1e300, f64::INFINITY], f64::acosh);
        let some = [0.0, 1e-300, 1e-12, 1e-5, 0.1, 0.5, 0.99, 1.0];
        let all: Vec<f64> = some.into_iter().flat_map(|x| [x, -x]).collect();
        assert_f64("Atanh", &all, atanh);
    }

    #[test]
    fn near_one_the_arc_cosine_is_a_root() {
        let root = |x: f64| {
            let y = x - 1.0;
            (2.0 * y).sqrt() * (1.0 - y / 12.0 + 3.0 * y * y / 160.0)
        };
        assert_f64("Acosh", &[1.0 + 1e-15, 1.0 + 1e-9, 1.0 + 1e-5], root);
    }

    #[test]
    fn outside_is_not_a_number() {
        assert_f64("Acosh", &[0.5, 0.0, -0.5, -3.0, f64::NEG_INFINITY, f64::NAN], |_| f64::NAN);
        assert_f64("Atanh", &[1.5, -2.0, f64::INFINITY, f64::NAN], |_| f64::NAN);
        assert_f64("Asinh", &[f64::NAN], |_| f64::NAN);
    }
}
