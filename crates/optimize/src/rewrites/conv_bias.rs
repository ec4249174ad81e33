//! `Conv(x, w) + b` → `Conv(x, w, b)`, if `b` has one number per output channel.
//!
//! `Conv(x, w) - c` → `Conv(x, w) + -c` for an unnamed constant `c`, which occurs in a batch norm
//! whose tensors are not parameters. Runtimes fuse sums and products into a convolution, but not
//! differences.

use onnx::{Node, ValueId};
use tensor::Dim;

use super::channels::{is_of_channels, of_channels};
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "conv_bias", roots: Roots::Named(&["Add", "Sub"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    if m.root().is("Sub") {
        return difference(m);
    }
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

fn difference(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (product, subtracted) = (m.operand(0)?, m.operand(1)?);
    if m.producer(product, &["Conv", "ConvTranspose"]).is_none() || !m.is_used_once(product) {
        return Err("nothing is subtracted from a convolution".into());
    }
    if m.constant(subtracted).is_none() {
        return Err("the subtrahend is not a constant".into());
    }
    let shape = &m.ty(product).shape;
    let channels = shape.get(1).ok_or("the convolution has no channels")?;
    if !is_of_channels(m, subtracted, shape.len(), 1, channels) {
        return Err("an operand is not one number for each channel".into());
    }
    let added = m.op("Neg", &[subtracted], onnx::Attrs::new())?;
    Ok(vec![m.op("Add", &[product, added], onnx::Attrs::new())?])
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
    fn a_subtracted_constant_is_negated_and_added() {
        let t = "t = Constant <value = float[2,1,1] {5, 6}> ()";
        let bias = "s = Constant <value_ints = [2]> () v3 = Reshape (v1, s)";
        for (conv, sum) in [
            ("Conv (x, w)", format!("v1 = Neg (t) {bias} y = Conv (x, w, v3)")),
            ("Conv (x, w, b)", "c = Conv (x, w, b) v1 = Neg (t) y = Add (c, v1)".to_owned()),
        ] {
            rewrites_to(
                &REWRITE,
                &text(&format!("{t} c = {conv} y = Sub (c, t)")),
                &text(&format!("{t} {sum}")),
            );
        }
    }

    #[test]
    fn other_differences_are_unchanged() {
        for body in [
            "t = Constant <value = float[4] {1, 2, 3, 4}> () c = Conv (x, w) y = Sub (c, t)",
            "t = Constant <value = float[2,1,1] {5, 6}> () c = Conv (x, w) y = Sub (t, c)",
            "s = Constant <value_ints = [2, 1, 1]> () r = Reshape (b, s) c = Conv (x, w) y = Sub (c, r)",
            "t = Constant <value = float[2,1,1] {5, 6}> () c = Conv (x, w) d = Sub (c, t) y = Mul (c, d)",
        ] {
            stays(&REWRITE, &text(body));
        }
    }

    #[test]
    fn other_sums_are_unchanged() {
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
