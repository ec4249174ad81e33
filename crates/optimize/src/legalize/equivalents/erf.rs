//! `Erf` in double precision.
//!
//! Two fits at Chebyshev nodes: `erf(x) / x` in `x²` up to 1, and `erfc(x) exp(x²)` in `(x - 3) /
//! (x + 3)` from 1 to 6, beyond which the result is one. The highest powers come first.

use onnx::formula::Num;
use onnx::{Builder, Node};

use super::{Results, formula};

const NEAR: [f64; 12] = [
    -7.795898827002142e-10,
    1.3720064546777686e-08,
    -1.6208483801871705e-07,
    1.6447424703317362e-06,
    -1.492473690741966e-05,
    0.00012055294904839707,
    -0.0008548325975389692,
    0.0052239776071164225,
    -0.02686617064323777,
    0.11283791670945006,
    -0.37612638903183543,
    std::f64::consts::FRAC_2_SQRT_PI,
];

const FAR: [f64; 15] = [
    1.2801900862962662e-06,
    2.023603179641757e-06,
    -8.008021319412685e-06,
    -1.284889451252353e-05,
    6.406182073530546e-05,
    4.525472635483354e-05,
    -0.0005970623517093284,
    0.0007077464443901538,
    0.004269136347508256,
    -0.024392499318273194,
    0.07166583719774874,
    -0.15011593650078744,
    0.24560380171233195,
    -0.32623356004303716,
    0.17900115118138996,
];

pub(super) fn erf(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| approximation(x))
}

fn approximation(x: Num<'_>) -> Num<'_> {
    let near = x.squared().polynomial(&NEAR) * x;
    let size = x.abs();
    let far = size.clip(1.0, 6.0);
    let fit = ((far - 3.0) / (far + 3.0)).polynomial(&FAR);
    let complement = (-far.squared()).exp() * fit;
    let far = (1.0 - complement) * x.sign();
    // NaN is not greater, and the first fit preserves it.
    size.greater(1.0).select(far, near)
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::assert_f64;

    /// Computes the series `2 / √π x exp(-x²) Σ (2x²)ⁿ / (2n + 1)!!`, whose terms all have the same
    /// sign.
    fn erf(x: f64) -> f64 {
        if x.is_infinite() || x.abs() > 6.5 {
            return x.signum();
        }
        let (mut term, mut sum, mut n) = (1.0, 1.0, 1.0);
        while term > sum * 1e-18 {
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        std::f64::consts::FRAC_2_SQRT_PI * x * (-x * x).exp() * sum
    }

    #[test]
    fn it_is_accurate_everywhere() {
        let grid = (0..140).map(|i| f64::from(i) * 0.05);
        let small = [0.0, 1e-300, 1e-20, 1e-8, 1e-3, 0.9999999, 1.0000001, 1e10, f64::INFINITY];
        let all: Vec<f64> = grid.chain(small).flat_map(|x| [x, -x]).collect();
        assert_f64("Erf", &all, erf);
        assert_f64("Erf", &[f64::NAN], |x| x);
    }
}
