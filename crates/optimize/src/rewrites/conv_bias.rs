//! `Conv(x, w) + b` → `Conv(x, w, b)`, if `b` has one number per output channel.
//!
//! `Conv(x, w) - c` → `Conv(x, w) + -c` for an unnamed constant `c`, which occurs in a batch norm
//! whose tensors are not parameters. Runtimes fuse sums and products into a convolution, but not
//! differences.

use onnx::{Attrs, ValueId};
use tensor::Dim;

use super::channels::{is_of_channels, vector};
use crate::rewrite::either_order;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("conv_bias", &["Add", "Sub"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let conv = |v| m.producer(v, &["Conv", "ConvTranspose"]);
    let (product, other) = either_order(m.root(), |a, b| conv(a).is_some() && conv(b).is_none())
        .ok_or("not exactly one operand is a convolution")?;
    let conv = conv(product).cloned().ok_or("the operand is not a convolution")?;
    Skip::when(!m.is_used_once(product), "the convolution has other readers")?;
    let shape = m.ty(product).shape.clone();
    let channels: &Dim = shape.get(1).ok_or("the convolution has no channels")?;
    if !is_of_channels(m, other, shape.len(), 1, channels) {
        return Err("an operand is not one number for each channel".into());
    }
    if m.root().is("Sub") {
        if m.operand(0)? != product || m.constant(other).is_none() {
            return Err("no constant is subtracted from the convolution".into());
        }
        let added = m.op("Neg", &[other], Attrs::new())?;
        return Ok(vec![m.op("Add", &[product, added], Attrs::new())?]);
    }
    Skip::when(conv.input(2).is_some(), "the convolution has a bias")?;
    Skip::when(m.ty(m.result()?).shape != shape, "the sum broadcasts the convolution")?;
    let bias = vector(m, other, channels)?;
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
