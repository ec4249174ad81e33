//! Sinh and Cosh in double precision.
//!
//! The exponential of half the argument is squared at the end: that of the whole argument would
//! overflow before the result does.

use onnx::{Builder, Node, Result, ValueId};

use super::{Lack, Real, operand};

/// Terms of the power series of `sinh(x) / x` in `x²`; for `|x| < 1` the next one is below 1e-17.
const SERIES: [f64; 9] = {
    let mut terms = [1.0; 9];
    let mut n = 1;
    while n < 9 {
        terms[n] = terms[n - 1] / ((2 * n) as f64 * (2 * n + 1) as f64);
        n += 1;
    }
    terms
};

/// `exp(|x|) / 2` and `exp(-|x|) / 2`.
fn halves(f: &mut Real<'_, '_>, x: ValueId) -> Result<(ValueId, ValueId)> {
    let size = f.abs(x)?;
    let half = f.mul(size, 0.5)?;
    let root = f.exp(half)?;
    let part = f.mul(root, 0.5)?;
    let grows = f.mul(part, root)?;
    let part = f.div(0.5, root)?;
    let falls = f.div(part, root)?;
    Ok((grows, falls))
}

pub(super) fn cosh(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let (grows, falls) = halves(&mut f, x)?;
    Ok(vec![f.add(grows, falls)?])
}

/// Near zero the two halves cancel; there it is a power series.
pub(super) fn sinh(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let (grows, falls) = halves(&mut f, x)?;
    let difference = f.sub(grows, falls)?;
    let sign = f.sign(x)?;
    let far = f.mul(difference, sign)?;
    let square = f.mul(x, x)?;
    let series = f.polynomial(square, &SERIES)?;
    let near = f.mul(series, x)?;
    let size = f.abs(x)?;
    let is_near = f.less(size, 1.0)?;
    Ok(vec![f.select(is_near, near, far)?])
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::assert_f64;

    #[test]
    fn they_are_accurate_from_zero_to_overflow() {
        let some = [0.0, 1e-300, 1e-8, 0.3, 0.999, 1.0, 1.5, 20.0, 700.0, 710.0, 711.0];
        let all: Vec<f64> = some.into_iter().flat_map(|x| [x, -x]).collect();
        assert_f64("Sinh", &all, f64::sinh);
        assert_f64("Cosh", &all, f64::cosh);
        for special in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_f64("Sinh", &[special], f64::sinh);
            assert_f64("Cosh", &[special], f64::cosh);
        }
    }
}
