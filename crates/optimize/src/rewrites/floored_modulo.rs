//! `r < 0 ? r + n : r`, where `r` is the truncated remainder of a division by `n > 0` → `Mod(x,
//! n)`, whose sign is that of `n`.

use onnx::{Attr, ValueId};
use tensor::Tensor;

use crate::movement::set_attr;
use crate::rewrite::either_order;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("floored_modulo", &["Where"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (condition, sum, rest) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    let modulo = m.producer(rest, &["Mod"]).ok_or("the choice is not a remainder")?.clone();
    let splat = |value: Option<ValueId>| m.constant(value?).and_then(Tensor::splat);
    let by = modulo.input(1);
    Skip::when(modulo.int("fmod", 0) != 1, "the remainder is already rounded down")?;
    Skip::when(!m.ty(rest).dtype.is_integer(), "the remainder is not an integer")?;
    Skip::when(splat(by).is_none_or(|by| by <= 0.0), "the divisor is not known to be positive")?;
    let less = m.producer(condition, &["Less"]).ok_or("the condition is different")?;
    Skip::when(less.input(0) != Some(rest), "the condition is about another value")?;
    Skip::when(splat(less.input(1)) != Some(0.0), "the remainder is not compared with zero")?;
    let add = m.producer(sum, &["Add"]).ok_or("nothing is added")?;
    let adds = either_order(add, |a, b| a == rest && splat(Some(b)) == splat(by));
    Skip::when(adds.is_none() || m.ty(rest) != m.ty(m.result()?), "something else is added")?;
    let mut node = modulo;
    set_attr(&mut node.attrs, "fmod", Attr::Int(0));
    Ok(vec![m.like(&node, node.inputs.clone())?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    fn text(by: i64, add: i64) -> String {
        format!(
            "g (int32[3] x) => (int32[3] y) {{
                zero = Constant <value = int32 {{0}}> ()
                by = Constant <value = int32 {{{by}}}> ()
                more = Constant <value = int32 {{{add}}}> ()
                r = Mod <fmod = 1> (x, by)
                l = Less (r, zero)
                s = Add (r, more)
                y = Where (l, s, r)
            }}"
        )
    }

    #[test]
    fn a_modulo_is_one_node() {
        rewrites_to(
            &REWRITE,
            &text(7, 7),
            "g (int32[3] x) => (int32[3] y) {
                by = Constant <value = int32 {7}> ()
                y = Mod <fmod = 0> (x, by)
            }",
        );
    }

    #[test]
    fn other_choices_are_unchanged() {
        stays(&REWRITE, &text(7, 8));
        stays(&REWRITE, &text(-7, -7));
    }

    #[test]
    fn the_divisor_is_added_in_either_order() {
        rewrites_to(
            &REWRITE,
            &text(7, 7).replace("Add (r, more)", "Add (more, r)"),
            "g (int32[3] x) => (int32[3] y) {
                by = Constant <value = int32 {7}> ()
                y = Mod <fmod = 0> (x, by)
            }",
        );
    }

    #[test]
    fn other_conditions_and_remainders_are_unchanged() {
        let plain = text(7, 7);
        for text in [
            text(0, 0),
            plain.replace("<fmod = 1>", "<fmod = 0>"),
            plain.replace("int32", "float"),
            plain.replace("Less (r, zero)", "Less (x, zero)"),
            plain.replace("Less (r, zero)", "Less (r, more)"),
            plain.replace("Add (r, more)", "Add (x, more)"),
            plain.replace("Add (r, more)", "Add (r, x)"),
            plain.replace("int32[3] y", "int32[2,3] y").replace(
                "more = Constant <value = int32 {7}>",
                "more = Constant <value = int32[2,1] {7, 7}>",
            ),
        ] {
            stays(&REWRITE, &text);
        }
    }
}
