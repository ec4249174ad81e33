//! `BitCast` of bits with a constant exponent → arithmetic on the fraction bits, which are an
//! integer. Random numbers between one and two are generated this way.

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, DTypeKind};

use crate::rewrite::either_order;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::of("bits_with_constant_exponent", &["BitCast"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let to = m.ty(m.result()?).dtype;
    let (_, bits) = to.float_fields().ok_or("it does not compute with floats")?;
    let bits = bits.cast_signed();
    let found = parts(m, m.operand(0)?, to, bits);
    let (fraction, exponent) = found.ok_or("its exponent is not known")?;
    let number = m.op("Cast", &[fraction], attrs! { to: to })?;
    let unit = m.scalar(to, 2f64.powi(exponent - bits))?;
    let one = m.scalar(to, 2f64.powi(exponent))?;
    let fraction = m.op("Mul", &[number, unit], Attrs::new())?;
    Ok(vec![m.op("Add", &[fraction, one], Attrs::new())?])
}

/// Returns the bits below the exponent, and the exponent as a power of two.
fn parts(m: &Match<'_>, x: ValueId, to: DType, bits: i32) -> Option<(ValueId, i32)> {
    if m.ty(x).dtype.kind() != DTypeKind::Unsigned {
        return None;
    }
    let is_fraction = |x, y| word(m, x).is_none() && word(m, y).is_some();
    let (fraction, constant) = either_order(m.producer(x, &["BitwiseOr"])?, is_fraction)?;
    let constant = word(m, constant)?;
    let (biased, below) = (constant >> bits, constant & ((1 << bits) - 1));
    let bias = (1 << (to.bits() as i32 - bits - 2)) - 1;
    let biased = i32::try_from(biased).ok()?;
    let normal = (1..=2 * bias).contains(&biased) && below == 0;
    let same_shape = m.ty(fraction).shape == m.ty(x).shape;
    (normal && same_shape && length(m, fraction) <= bits).then_some((fraction, biased - bias))
}

/// Returns the only element of a constant.
fn word(m: &Match<'_>, x: ValueId) -> Option<i128> {
    let tensor = m.constant(x)?;
    if tensor.len() != 1 { None } else { tensor.to_ints()?.first().copied() }
}

/// Returns the number of low bits of the words in `x` that can be set.
fn length(m: &Match<'_>, x: ValueId) -> i32 {
    let all = m.ty(x).dtype.bits() as i32;
    let Some(node) = m.producer(x, &["BitShift", "Cast"]) else { return all };
    let right = node.string("direction", "") == "RIGHT";
    match (node.input(0), node.input(1)) {
        (Some(inner), None) if m.ty(inner).dtype.kind() == DTypeKind::Unsigned => {
            all.min(length(m, inner))
        }
        (Some(inner), Some(amount)) if right => {
            let amount = word(m, amount).and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
            (length(m, inner) - amount).max(0)
        }
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    const SHIFTED: &str = "n = Constant <value = uint32 {9}> ()
        s = BitShift <direction = \"RIGHT\"> (x, n)";

    #[test]
    fn numbers_between_one_and_two_are_arithmetic() {
        rewrites_to(
            &REWRITE,
            &format!(
                "g (uint32[B] x) => (float[B] y) {{ {SHIFTED}
                    e = Constant <value = uint32 {{1065353216}}> () b = BitwiseOr (s, e)
                    y = BitCast <to = 1> (b) }}"
            ),
            &format!(
                "g (uint32[B] x) => (float[B] y) {{ {SHIFTED}
                    v1 = Cast <to = 1> (s) u = Constant <value_float: float = 1.1920929e-7> ()
                    v3 = Mul (v1, u) o = Constant <value_float: float = 1> ()
                    y = Add (v3, o) }}"
            ),
        );
    }

    #[test]
    fn other_bits_are_unchanged() {
        for (bits, exponent) in [("x", 1_065_353_216), ("s", 1), ("s", 2_139_095_040)] {
            stays(
                &REWRITE,
                &format!(
                    "g (uint32[B] x) => (float[B] y) {{ {SHIFTED}
                        e = Constant <value = uint32 {{{exponent}}}> ()
                        b = BitwiseOr ({bits}, e) y = BitCast <to = 1> (b) }}"
                ),
            );
        }
    }

    #[test]
    fn the_words_have_few_bits() {
        let text = |from: &str, body: &str| {
            format!(
                "g ({from}[B] x) => (float[B] y) {{ n = Constant <value = {from} {{9}}> ()
                    {body} e = Constant <value = uint32 {{1065353216}}> () b = BitwiseOr (e, s)
                    y = BitCast <to = 1> (b) }}"
            )
        };
        for (from, body, applies) in [
            ("uint16", "s = Cast <to = 12> (x)", true),
            ("int16", "s = Cast <to = 12> (x)", false),
            ("uint64", "s = Cast <to = 12> (x)", false),
            ("uint32", "s = BitShift <direction = \"RIGHT\"> (x, n)", true),
            ("uint32", "s = BitShift <direction = \"LEFT\"> (x, n)", false),
        ] {
            let after = crate::testing::rewritten(&REWRITE, &text(from, body));
            assert_eq!(!after.contains("BitCast"), applies, "{after}");
        }
    }
}
