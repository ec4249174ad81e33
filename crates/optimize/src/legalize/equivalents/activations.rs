//! Activation functions by their definitions.

use onnx::{Builder, Node};

use super::{Results, formula};

/// Computes `max(x, 0) + log(1 + exp(-|x|))`, which does not overflow.
pub(super) fn softplus(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| x.max(0.0) + (-x.abs()).exp().ln_1p())
}

/// Computes `Swish` for any float. Runtimes have no kernel for it, and do not expand its function
/// body at every opset.
pub(super) fn swish(b: &mut Builder<'_>, node: &Node) -> Results {
    let alpha = node.float("alpha", 1.0);
    formula(b, node, |[x]| {
        let wide = x.widened();
        (wide * (wide * alpha).sigmoid()).cast(x.dtype())
    })
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::{assert_f64, at_opset};

    #[test]
    fn softplus_does_not_overflow() {
        let xs =
            [0.0, 1e-300, -1e-12, 1e-3, -1e-3, 0.7, -0.7, 1.5, -4.0, 40.0, -40.0, -800.0, 800.0];
        assert_f64("Softplus", &xs, |x| x.max(0.0) + (-x.abs()).exp().ln_1p());
    }

    #[test]
    fn swish_is_a_product_with_a_sigmoid() {
        for attrs in ["", "<alpha = 2.0>"] {
            let text = format!("g (float[3] x) => (float[3] y) {{ y = Swish {attrs} (x) }}");
            let found = at_opset(&text, 22);
            assert_eq!(found.matches("Mul (").count(), 2, "{found}");
            assert!(found.contains("Sigmoid (") && !found.contains("Add"), "{found}");
        }
    }
}
