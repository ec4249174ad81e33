//! `Conv(Pad(x), w)` → `Conv(x, w)` with more padding, if the padding is zero and all consumers are
//! convolutions. Runtimes do this only for a single consumer.

use onnx::{Attr, Use, ValueId};
use tensor::Tensor;

use super::padding::Padding;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("conv_padding", &["Conv"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let padded = m.operand(0)?;
    let Padding { x, amounts, number } =
        Padding::of(m, padded).ok_or("nothing is padded by known amounts")?;
    let is_zero = |v: ValueId| {
        let numbers = m.constant(v).and_then(Tensor::to_f64s);
        numbers.is_some_and(|numbers| numbers.iter().all(|n| n.to_bits() == 0))
    };
    Skip::when(!number.is_none_or(is_zero), "it is padded with another number")?;
    let is_convolved = |place: Use| {
        let Use::Operand(id, 0) = place else { return false };
        let node = m.graph().node(id);
        node.is("Conv") && node.attr("auto_pad").is_none()
    };
    if !m.graph().value(padded).uses().all(is_convolved) {
        return Err("the padded value has other consumers".into());
    }
    let (outer, spatial) = amounts.split_at_checked(2).ok_or("there are no channels")?;
    if outer.iter().any(|sides| *sides != (0, 0)) || spatial.iter().any(|(a, b)| *a.min(b) < 0) {
        return Err("other axes are padded, or something is cut off".into());
    }
    let more =
        spatial.iter().map(|(before, _)| before).chain(spatial.iter().map(|(_, after)| after));
    let mut conv = m.root().clone();
    let own = conv.ints("pads").map_or_else(|| vec![0; 2 * spatial.len()], <[i64]>::to_vec);
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
