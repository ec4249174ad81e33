//! `Asinh`, `Acosh` and `Atanh` in double precision, as logarithms of `1 + y`.

use std::f64::consts::LN_2;

use onnx::formula::Num;
use onnx::{Builder, Node};

use super::{Results, formula};

/// The argument above which `asinh` and `acosh` equal `log(2x)`. Far above it, squares could
/// overflow.
const LARGE: f64 = 1e8;

/// Selects `log(2x)` where `x` is large, and `near` elsewhere.
fn unless_large<'f>(x: Num<'f>, near: Num<'f>) -> Num<'f> {
    let far = x.ln() + LN_2;
    x.greater(LARGE).select(far, near)
}

/// Computes `log(|x| + √(x² + 1))` with the sign of `x`.
pub(super) fn asinh(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| {
        let size = x.abs();
        let square = size.squared();
        // √(x² + 1) - 1
        let excess = square / ((square + 1.0).sqrt() + 1.0);
        unless_large(size, (size + excess).ln_1p()) * x.sign()
    })
}

/// Computes `log(x + √(x² - 1))`.
pub(super) fn acosh(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| {
        let above = x - 1.0;
        let root = (above * (x + 1.0)).sqrt();
        let result = unless_large(x, (above + root).ln_1p());
        x.less(1.0).select(f64::NAN, result)
    })
}

/// Computes `log((1 + |x|) / (1 - |x|)) / 2` with the sign of `x`.
pub(super) fn atanh(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| {
        let size = x.abs();
        let log = (size * 2.0 / (1.0 - size)).ln_1p();
        log * (x.sign() * 0.5)
    })
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::assert_f64;

    // The functions of the standard library are themselves logarithms that lose digits near zero.
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
