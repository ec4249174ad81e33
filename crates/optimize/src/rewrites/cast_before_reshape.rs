//! `Cast(Reshape(x)) → Reshape(Cast(x))`, and the same of other changes of shape: casts then meet
//! those of the operand, and changes of shape meet the operators that do not need them. Only casts to
//! wider floats: runtimes change the shape of these, and perhaps not of small ones. What an `Expand` repeats is cast
//! before in any case, unless to a small float: there is less of it. So is what was cast before already.

use onnx::ValueId;
use tensor::DType;

use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "cast_before_reshape", roots: Roots::Named(&["Cast"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let shaped = m.operand(0)?;
    let node = m.producer(shaped, &["Expand", "Reshape", "Squeeze", "Unsqueeze"]);
    let node = node.ok_or("the operand is not just reshaped")?.clone();
    if node.block() != m.root().block() {
        return Err("the shape is changed in another block".into());
    }
    if !m.is_used_once(shaped) {
        return Err("the operand has other readers".into());
    }
    let x = node.input(0).ok_or("an operand is left out")?;
    let (from, to) = (m.ty(x).dtype, m.ty(m.result()?).dtype);
    let widens = matches!(from, DType::F16 | DType::BF16) && matches!(to, DType::F32 | DType::F64);
    let spreads = node.is("Expand") && to.bits() >= 8 && !matches!(to, DType::F16 | DType::BF16);
    let is_wide = matches!(to, DType::F32 | DType::F64 | DType::I32 | DType::I64);
    let meets = is_wide && from.is_integer() && m.producer(x, &["Cast"]).is_some();
    if !widens && !spreads && !meets {
        return Err("the cast is not to a wider float".into());
    }
    let cast = m.root().clone();
    let cast = m.like(&cast, vec![Some(x)])?;
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(cast);
    Ok(vec![m.like(&node, inputs)?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn casts_meet() {
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
    fn what_is_repeated_is_cast_once() {
        let start =
            "g (int32[B,1,4] x) => (bool[B,3,4] y) { s = Constant <value_ints = [1, 3, 1]> ()";
        rewrites_to(
            &REWRITE,
            &format!("{start} e = Expand (x, s) y = Cast <to = 9> (e) }}"),
            &format!("{start} v0 = Cast <to = 9> (x) y = Expand (v0, s) }}"),
        );
    }

    #[test]
    fn a_cast_to_a_small_type_stays() {
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
    fn a_shape_that_others_read_stays() {
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
