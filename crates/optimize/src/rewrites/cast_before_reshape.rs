//! `Cast(Reshape(x))` → `Reshape(Cast(x))`, and likewise for other changes of shape. Casts become
//! adjacent to other casts, and reshapes to operators that do not need them.
//!
//! This applies to casts from small floats to wider ones, because runtimes may not reshape small
//! floats. It also applies to an `Expand`, which repeats elements that are then cast only once,
//! unless the cast is to a small float. Integers that were already cast before the reshape are also
//! cast first.

use onnx::ValueId;
use tensor::DType;

use super::channels::is_spread;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("cast_before_reshape", &["Cast"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let shaped = m.operand(0)?;
    let node = m.producer_with(shaped, is_spread);
    let node = node.ok_or("the operand is not just reshaped")?.clone();
    Skip::when(node.block() != m.root().block(), "the shape is changed in another block")?;
    Skip::when(!m.is_used_once(shaped), "the operand has other readers")?;
    let x = node.input(0).ok_or("an operand is left out")?;
    let (from, to) = (m.ty(x).dtype, m.ty(m.result()?).dtype);
    let widens = matches!(from, DType::F16 | DType::BF16) && matches!(to, DType::F32 | DType::F64);
    let spreads = node.is("Expand") && to.bits() >= 8 && !matches!(to, DType::F16 | DType::BF16);
    let is_wide = matches!(to, DType::F32 | DType::F64 | DType::I32 | DType::I64);
    let meets = is_wide && from.is_integer() && m.producer(x, &["Cast"]).is_some();
    Skip::when(!widens && !spreads && !meets, "the cast is not to a wider float")?;
    let cast = m.like(&m.root().clone(), vec![Some(x)])?;
    Ok(vec![m.like_with(&node, 0, cast)?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn casts_become_adjacent() {
        let text = |body: &str| {
            format!(
                "g (int64[4] x) => (float[1,4] y) {{
                    s = Constant <value_ints = [1, 4]> () {body} }}"
            )
        };
        rewrites_to(
            &REWRITE,
            &text("c = Cast <to = 6> (x) r = Reshape (c, s) y = Cast <to = 1> (r)"),
            &text("c = Cast <to = 6> (x) v0 = Cast <to = 1> (c) y = Reshape (v0, s)"),
        );
        stays(&REWRITE, &text("c = Neg (x) r = Reshape (c, s) y = Cast <to = 1> (r)"));
    }

    #[test]
    fn a_cast_comes_first() {
        let start = "g (bfloat16[4] x) => (float[1,4] y) { s = Constant <value_ints = [1, 4]> ()";
        rewrites_to(
            &REWRITE,
            &format!("{start} r = Reshape (x, s) y = Cast <to = 1> (r) }}"),
            &format!("{start} v0 = Cast <to = 1> (x) y = Reshape (v0, s) }}"),
        );
    }

    #[test]
    fn repeated_elements_are_cast_once() {
        let start =
            "g (int32[B,1,4] x) => (bool[B,3,4] y) { s = Constant <value_ints = [1, 3, 1]> ()";
        rewrites_to(
            &REWRITE,
            &format!("{start} e = Expand (x, s) y = Cast <to = 9> (e) }}"),
            &format!("{start} v0 = Cast <to = 9> (x) y = Expand (v0, s) }}"),
        );
    }

    #[test]
    fn a_cast_to_a_small_type_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[4] x) => (bfloat16[1,4] y) {
                s = Constant <value_ints = [1, 4]> ()
                r = Reshape (x, s)
                y = Cast <to = 16> (r)
            }",
        );
    }

    #[test]
    fn a_reshape_with_other_consumers_is_unchanged() {
        stays(
            &REWRITE,
            "g (bfloat16[4] x) => (float[1,4] y, bfloat16[1,4] r) {
                s = Constant <value_ints = [1, 4]> ()
                r = Reshape (x, s)
                y = Cast <to = 1> (r)
            }",
        );
    }
}
