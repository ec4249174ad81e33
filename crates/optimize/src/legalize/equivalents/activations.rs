//! Activation functions in double precision, by their definitions.

use onnx::{Attr, Attrs, Builder, Node, Result, ValueId, attrs};
use tensor::DType;

use super::{Lack, Real, operand};

type Results = std::result::Result<Vec<ValueId>, Lack>;

/// The float attribute `name`, or `default`.
fn float(node: &Node, name: &str, default: f32) -> f64 {
    match node.attr(name) {
        Some(Attr::Float(value)) => f64::from(*value),
        _ => f64::from(default),
    }
}

/// `negative` where the node's operand is below zero, else the operand.
fn if_negative(f: &mut Real<'_, '_>, x: ValueId, negative: ValueId) -> Result<ValueId> {
    let below = f.less(x, 0.0)?;
    f.select(below, negative, x)
}

pub(super) fn elu(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let alpha = float(node, "alpha", 1.0);
    let mut f = Real(b);
    let shifted = f.min(x, 0.0)?;
    let shifted = f.expm1(shifted)?;
    let negative = f.mul(shifted, alpha)?;
    Ok(vec![if_negative(&mut f, x, negative)?])
}

pub(super) fn selu(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    // The defaults that the specification gives.
    let alpha = float(node, "alpha", 1.673_263_2);
    let gamma = float(node, "gamma", 1.050_701);
    let mut f = Real(b);
    let shifted = f.min(x, 0.0)?;
    let shifted = f.expm1(shifted)?;
    let negative = f.mul(shifted, alpha)?;
    let elu = if_negative(&mut f, x, negative)?;
    Ok(vec![f.mul(elu, gamma)?])
}

pub(super) fn leaky_relu(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let alpha = float(node, "alpha", 0.01);
    let mut f = Real(b);
    let negative = f.mul(x, alpha)?;
    Ok(vec![if_negative(&mut f, x, negative)?])
}

pub(super) fn prelu(b: &mut Builder<'_>, node: &Node) -> Results {
    let (x, slope) = (operand(node, 0)?, operand(node, 1)?);
    let mut f = Real(b);
    let negative = f.mul(x, slope)?;
    Ok(vec![if_negative(&mut f, x, negative)?])
}

pub(super) fn thresholded_relu(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let alpha = float(node, "alpha", 1.0);
    let mut f = Real(b);
    let above = f.greater(x, alpha)?;
    Ok(vec![f.select(above, x, 0.0)?])
}

pub(super) fn softsign(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let size = f.abs(x)?;
    let sum = f.add(size, 1.0)?;
    Ok(vec![f.div(x, sum)?])
}

pub(super) fn softplus(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    Ok(vec![softplus_of(&mut Real(b), x)?])
}

/// `max(x, 0) + log(1 + exp(-|x|))`, which does not overflow.
fn softplus_of(f: &mut Real<'_, '_>, x: ValueId) -> Result<ValueId> {
    let size = f.abs(x)?;
    let minus = f.neg(size)?;
    let exp = f.exp(minus)?;
    let log = f.log1p(exp)?;
    let positive = f.max(x, 0.0)?;
    f.add(positive, log)
}

pub(super) fn mish(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let softplus = softplus_of(&mut f, x)?;
    let tanh = f.tanh(softplus)?;
    Ok(vec![f.mul(x, tanh)?])
}

pub(super) fn hard_sigmoid(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let (alpha, beta) = (float(node, "alpha", 0.2), float(node, "beta", 0.5));
    let mut f = Real(b);
    let product = f.mul(x, alpha)?;
    let sum = f.add(product, beta)?;
    Ok(vec![f.clip(sum, 0.0, 1.0)?])
}

pub(super) fn hard_swish(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let mut f = Real(b);
    let sixth = f.div(x, 6.0)?;
    let sum = f.add(sixth, 0.5)?;
    let gate = f.clip(sum, 0.0, 1.0)?;
    Ok(vec![f.mul(x, gate)?])
}

/// Any float: no runtime kernel exists, and its body is not expanded at every opset.
pub(super) fn swish(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let alpha = float(node, "alpha", 1.0);
    let dtype = b.dtype(x);
    let wide = if dtype == DType::F64 { x } else { b.cast(x, DType::F32)? };
    let compute = b.dtype(wide);
    let factor = b.scalar(compute, alpha)?;
    let scaled = b.op("Mul", &[wide, factor], Attrs::new())?;
    let gate = b.op("Sigmoid", &[scaled], Attrs::new())?;
    let product = b.op("Mul", &[wide, gate], Attrs::new())?;
    Ok(vec![if compute == dtype {
        product
    } else {
        b.op("Cast", &[product], attrs! { to: dtype })?
    }])
}

/// The mean of several operands.
pub(super) fn mean(b: &mut Builder<'_>, node: &Node) -> Results {
    let operands: Vec<_> = node.inputs.iter().flatten().copied().collect();
    let sum = b.op("Sum", &operands, Attrs::new())?;
    let mut f = Real(b);
    #[expect(clippy::cast_precision_loss, reason = "a node has few operands")]
    let count = operands.len() as f64;
    Ok(vec![f.div(sum, count)?])
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
