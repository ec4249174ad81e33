//! Activation functions in double precision, by their definitions.

use onnx::formula::{Num, formulas};
use onnx::{Attrs, Builder, Node};

use super::{Results, formula};

/// Selects `negative` where `x` is below zero, and `x` elsewhere.
fn if_negative<'f>(x: Num<'f>, negative: Num<'f>) -> Num<'f> {
    x.less(0.0).select(negative, x)
}

fn elu_of(x: Num<'_>, alpha: f64) -> Num<'_> {
    if_negative(x, x.min(0.0).exp_m1() * alpha)
}

pub(super) fn elu(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| elu_of(x, node.float("alpha", 1.0)))
}

pub(super) fn selu(b: &mut Builder<'_>, node: &Node) -> Results {
    // The defaults of the specification.
    let alpha = node.float("alpha", 1.673_263_2);
    let gamma = node.float("gamma", 1.050_701);
    formula(b, node, |[x]| elu_of(x, alpha) * gamma)
}

pub(super) fn leaky_relu(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| if_negative(x, x * node.float("alpha", 0.01)))
}

pub(super) fn prelu(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x, slope]| if_negative(x, x * slope))
}

pub(super) fn thresholded_relu(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| x.greater(node.float("alpha", 1.0)).select(x, 0.0))
}

pub(super) fn softsign(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| x / (x.abs() + 1.0))
}

pub(super) fn softplus(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| softplus_of(x))
}

/// Computes `max(x, 0) + log(1 + exp(-|x|))`, which does not overflow.
fn softplus_of(x: Num<'_>) -> Num<'_> {
    let rest = (-x.abs()).exp().ln_1p();
    x.max(0.0) + rest
}

pub(in crate::legalize) fn mish(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| x * softplus_of(x).tanh())
}

pub(super) fn hard_sigmoid(b: &mut Builder<'_>, node: &Node) -> Results {
    let (alpha, beta) = (node.float("alpha", 0.2), node.float("beta", 0.5));
    formula(b, node, |[x]| (x * alpha + beta).clip(0.0, 1.0))
}

pub(in crate::legalize) fn hard_swish(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| x * (x / 6.0 + 0.5).clip(0.0, 1.0))
}

/// Computes `Swish` for any float. Runtimes have no kernel for it, and do not expand its function
/// body at every opset.
pub(in crate::legalize) fn swish(b: &mut Builder<'_>, node: &Node) -> Results {
    let alpha = node.float("alpha", 1.0);
    formula(b, node, |[x]| {
        let wide = x.widened();
        (wide * (wide * alpha).sigmoid()).cast(x.dtype())
    })
}

/// Computes the mean of several operands.
pub(super) fn mean(b: &mut Builder<'_>, node: &Node) -> Results {
    let operands: Vec<_> = node.inputs.iter().flatten().copied().collect();
    let sum = b.op("Sum", &operands, Attrs::new())?;
    #[expect(clippy::cast_precision_loss, reason = "a node has few operands")]
    let count = operands.len() as f64;
    Ok(formulas(b, [sum], |[sum]| [sum / count])?.to_vec())
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::assert_f64;

    const XS: [f64; 12] =
        [0.0, 1e-300, -1e-12, 1e-3, -1e-3, 0.7, -0.7, 1.5, -4.0, 40.0, -40.0, -800.0];

    #[test]
    fn they_are_what_their_names_say() {
        assert_f64("Elu", &XS, |x| if x < 0.0 { x.exp_m1() } else { x });
        let (alpha, gamma) = (f64::from(1.673_263_2_f32), f64::from(1.050_701_f32));
        assert_f64("Selu", &XS, |x| gamma * if x < 0.0 { alpha * x.exp_m1() } else { x });
        assert_f64("LeakyRelu", &XS, |x| if x < 0.0 { f64::from(0.01_f32) * x } else { x });
        assert_f64("ThresholdedRelu", &XS, |x| if x > 1.0 { x } else { 0.0 });
        assert_f64("Softsign", &XS, |x| x / (1.0 + x.abs()));
        let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
        assert_f64("Softplus", &XS, softplus);
        assert_f64("Mish", &XS, |x| x * softplus(x).tanh());
        let slope = f64::from(0.2_f32);
        assert_f64("HardSigmoid", &XS, |x| (slope * x + 0.5).clamp(0.0, 1.0));
        assert_f64("HardSwish", &XS, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0));
        assert_f64("Mean", &XS, |x| x);
    }
}
