//! `Conv(x, w) + b` → `Conv(x, w, b)`, where `b` is one number for each output channel.

use onnx::{Node, ValueId};
use tensor::Dim;

use super::channels::of_channels;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite { name: "conv_bias", roots: &["Add"], try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (a, b) = (m.operand(0)?, m.operand(1)?);
    let is_conv = |v| m.producer(v, &["Conv", "ConvTranspose"]).is_some();
    let (product, bias) = match (is_conv(a), is_conv(b)) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        _ => return Err("not exactly one operand is a convolution".into()),
    };
    if !m.is_used_once(product) {
        return Err("the convolution has other readers".into());
    }
    let conv = m.producer(product, &["Conv", "ConvTranspose"]).cloned();
    let conv: Node = conv.ok_or("the operand is not a convolution")?;
    if conv.input(2).is_some() {
        return Err("the convolution has a bias".into());
    }
    if m.ty(m.result()?).shape != m.ty(product).shape {
        return Err("the sum broadcasts the convolution".into());
    }
    let shape = m.ty(product).shape.clone();
    let channels: &Dim = shape.get(1).ok_or("the convolution has no channels")?;
    let bias = of_channels(m, bias, shape.len(), 1, channels)?;
    let mut inputs = conv.inputs.clone();
    inputs.truncate(2);
    inputs.push(Some(bias));
    Ok(vec![m.like(&conv, inputs)?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    fn text(body: &str) -> String {
        format!(
            "g (float[1,2,4,4] x) => (float[1,2,4,4] y)
            <float[2,2,1,1] w = {{1, 2, 3, 4}}, float[2] b = {{5, 6}}> {{ {body} }}"
        )
    }

    #[test]
    fn a_number_for_each_channel_is_a_bias() {
        for (op, reshape) in
            [("Conv", "[2, 1, 1]"), ("Conv", "[1, 2, 1, 1]"), ("ConvTranspose", "[2, 1, 1]")]
        {
            rewrites_to(
                &REWRITE,
                &text(&format!(
                    "s = Constant <value_ints = {reshape}> ()
                     r = Reshape (b, s)
                     c = {op} <group = 1> (x, w)
                     y = Add (c, r)"
                )),
                &text(&format!("y = {op} <group = 1> (x, w, b)")),
            );
        }
    }

    #[test]
    fn a_single_channel_needs_no_axis() {
        let text = |body: &str| {
            format!(
                "g (float[B,2,4,4] x) => (float[B,1,4,4] y)
                <float[1,2,1,1] w = {{1, 2}}, float[1] b = {{5}}> {{ {body} }}"
            )
        };
        let plain = text("c = Conv (x, w) y = Add (b, c)");
        rewrites_to(&REWRITE, &plain, &text("y = Conv (x, w, b)"));
    }

    #[test]
    fn other_sums_stay() {
        for body in [
            "s = Constant <value_ints = [2, 1]> () r = Reshape (b, s)
             t = Constant <value = float[4] {1, 2, 3, 4}> ()
             c = Conv (x, w) y = Add (c, t)",
            "c = Conv (x, w) y = Add (c, c)",
            "s = Constant <value_ints = [2, 1, 1]> () r = Reshape (b, s)
             c = Conv (x, w) d = Add (c, r) y = Mul (c, d)",
        ] {
            stays(&REWRITE, &text(body));
        }
    }
}
