//! `Conv(Pad(x), w)` → `Conv(x, w)` with more padding, if the padding is zero and all consumers are
//! convolutions. Runtimes do this only for a single consumer.

use onnx::{Attr, Use, ValueId};
use tensor::Tensor;

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("conv_padding", &["Conv"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let padded = m.operand(0)?;
    let pad = m.producer(padded, &["Pad"]).ok_or("nothing is padded")?;
    let is_constant = pad.attr("mode").is_none_or(|mode| *mode == Attr::from("constant"));
    if !is_constant || pad.input(3).is_some() {
        return Err("the padding is of another kind".into());
    }
    let is_zero = |v: ValueId| {
        let numbers = m.constant(v).and_then(Tensor::to_f64s);
        numbers.is_some_and(|numbers| numbers.iter().all(|n| n.to_bits() == 0))
    };
    if !pad.input(2).is_none_or(is_zero) {
        return Err("it is padded with another number".into());
    }
    let (x, amounts) = (pad.input(0), pad.input(1));
    let x = x.ok_or("an operand is left out")?;
    let amounts = amounts.and_then(|v| m.ints(v)).ok_or("the amounts are not known")?;
    let is_convolved = |place: Use| {
        let Use::Operand(id, 0) = place else { return false };
        let node = m.graph().node(id);
        node.is("Conv") && node.op.domain.is_empty() && node.attr("auto_pad").is_none()
    };
    if !m.graph().value(padded).uses().all(is_convolved) {
        return Err("the padded value has other consumers".into());
    }
    let rank = m.ty(x).rank();
    if amounts.len() != 2 * rank || rank < 3 {
        return Err("the amounts are not known".into());
    }
    let (before, after) = amounts.split_at(rank);
    let is_spatial = [before, after].iter().all(|side| side[..2].iter().all(|n| *n == 0));
    if !is_spatial || amounts.iter().any(|n| *n < 0) {
        return Err("other axes are padded, or something is cut off".into());
    }
    let more = before[2..].iter().chain(&after[2..]);
    let mut conv = m.root().clone();
    let own = conv.ints("pads").map_or_else(|| vec![0; 2 * (rank - 2)], <[i64]>::to_vec);
    let pads: Vec<i64> = own.iter().zip(more).map(|(own, more)| own + more).collect();
    conv.attrs.retain(|(name, _)| *name != "pads");
    conv.attrs.push(("pads", Attr::Ints(pads)));
    Ok(vec![m.like_with(&conv, 0, x)?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    fn text(body: &str) -> String {
        format!(
            "g (float[1,2,4] x) => (float[1,2,N] y) <float[2,2,2] w = {{1, 2, 3, 4, 5, 6, 7, 8}}> {{
                zero = Constant <value = float {{0}}> ()
                one = Constant <value = float {{1}}> ()
                left = Constant <value_ints = [0, 0, 3, 0, 0, 0]> ()
                channel = Constant <value_ints = [0, 1, 0, 0, -1, 0]> ()
                cut = Constant <value_ints = [0, 0, -1, 0, 0, 0]> ()
                {body}
            }}"
        )
    }

    #[test]
    fn all_consumers_absorb_the_padding() {
        rewrites_to(
            &REWRITE,
            &text(
                "p = Pad (x, left, zero) a = Conv (p, w) b = Conv <pads = [1, 0], dilations = [2]> (p, w)
                 y = Add (a, b)",
            ),
            &text(
                "a = Conv <pads = [3, 0]> (x, w) b = Conv <dilations = [2], pads = [4, 0]> (x, w)
                 y = Add (a, b)",
            ),
        );
    }

    #[test]
    fn other_padding_is_unchanged() {
        for body in [
            "p = Pad (x, left, one) y = Conv (p, w)",
            "p = Pad <mode = \"edge\"> (x, left) y = Conv (p, w)",
            "p = Pad (x, channel, zero) y = Conv (p, w)",
            "p = Pad (x, cut, zero) y = Conv (p, w)",
            "p = Pad (x, left, zero) y = Conv <auto_pad = \"SAME_UPPER\"> (p, w)",
            "p = Pad (x, left, zero) c = Conv <pads = [1, 0]> (p, w) y = Add (c, p)",
        ] {
            stays(&REWRITE, &text(body));
        }
    }
}
