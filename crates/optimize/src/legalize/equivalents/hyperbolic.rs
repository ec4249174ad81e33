//! `Sinh` and `Cosh` in double precision.
//!
//! The exponential of half the argument is squared at the end, because that of the whole argument
//! would overflow before the result does.

use onnx::formula::Num;
use onnx::{Builder, Node};

use super::{Results, formula};

/// The terms of the power series of `sinh(x) / x` in `x²`, the highest power first. For `|x| < 1`,
/// the next one is below 1e-17.
const SERIES: [f64; 9] = {
    let mut terms = [1.0; 9];
    let mut n = 1;
    while n < 9 {
        terms[8 - n] = terms[9 - n] / ((2 * n) as f64 * (2 * n + 1) as f64);
        n += 1;
    }
    terms
};

/// Returns `exp(|x|) / 2` and `exp(-|x|) / 2`.
fn halves(x: Num<'_>) -> (Num<'_>, Num<'_>) {
    let root = (x.abs() * 0.5).exp();
    (root * 0.5 * root, 0.5 / root / root)
}

pub(super) fn cosh(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| {
        let (grows, falls) = halves(x);
        grows + falls
    })
}

/// Computes the power series near zero, where the two halves would cancel.
pub(super) fn sinh(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| {
        let (grows, falls) = halves(x);
        let far = (grows - falls) * x.sign();
        let near = x.squared().polynomial(&SERIES) * x;
        x.abs().less(1.0).select(near, far)
    })
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
