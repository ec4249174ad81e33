//! `Gather(x, n - 1)` along an axis of size `n` → `Gather(x, -1)`. `Gather(x, [0, 1, …, n - 1])` →
//! `x`.

use onnx::{ValueId, fold};
use tensor::Dim;

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("gather_constant_indices", &["Gather"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (data, indices) = (m.operand(0)?, m.operand(1)?);
    let axis = fold::axis(m.root().int("axis", 0), m.ty(data).rank())?;
    let size = m.ty(data).shape[axis].clone();
    if let Some(known) = m.ints(indices) {
        let in_order = (0..).zip(&known).all(|(i, index)| i == *index);
        let is_all = m.ty(indices).rank() == 1 && size == Dim::Known(known.len() as i64);
        return if in_order && is_all {
            Ok(vec![data])
        } else {
            Err("other indices are gathered".into())
        };
    }
    let shape = m.ty(indices).static_shape().ok_or("the indices are not known")?;
    let count = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0);
    let content = m.facts().interval(indices).single().ok_or("the indices are not known")?;
    let Dim::Symbolic(_) = content else { return Err("the index is already a number".into()) };
    let from_end = (content - size).as_known().filter(|n| *n < 0);
    let from_end = from_end.ok_or("the index is not a fixed distance from the end")?;
    let known = m.i64s_like(&vec![from_end; count], indices)?;
    Ok(vec![m.like_with(&m.root().clone(), 1, known)?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, rewritten, stays};

    #[test]
    fn the_last_index_of_a_symbolic_axis_becomes_a_number() {
        rewrites_to(
            &REWRITE,
            "g (float[2,T] x) => (float[2,1] y) {
                t = Shape <start = 1> (x)
                one = Constant <value_ints = [1]> ()
                last = Sub (t, one)
                y = Gather <axis = 1> (x, last)
            }",
            "g (float[2,T] x) => (float[2,1] y) {
                last = Constant <value_ints = [-1]> ()
                y = Gather <axis = 1> (x, last)
            }",
        );
    }

    #[test]
    fn sizes_are_counted_in_32_bits_by_jax() {
        rewrites_to(
            &REWRITE,
            "g (float[2,T] x) => (float[2,1] y) {
                t = Shape <start = 1> (x)
                first = Constant <value_ints = [0]> ()
                s = Squeeze (t, first)
                c = Cast <to = 6> (s)
                one = Constant <value = int32 {-1}> ()
                a = Add (one, c)
                d = Cast <to = 7> (a)
                last = Unsqueeze (d, first)
                y = Gather <axis = 1> (x, last)
            }",
            "g (float[2,T] x) => (float[2,1] y) {
                last = Constant <value_ints = [-1]> ()
                y = Gather <axis = 1> (x, last)
            }",
        );
    }

    #[test]
    fn gathering_all_indices_in_order_is_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[3,T] x) => (float[3,T] y) {
                all = Constant <value_ints = [0, 1, 2]> ()
                g = Gather (x, all)
                y = Exp (g)
            }",
            "g (float[3,T] x) => (float[3,T] y) { y = Exp (x) }",
        );
    }

    #[test]
    fn other_indices_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[4,T] x) => (float[3,T] y) {
                some = Constant <value_ints = [0, 1, 2]> ()
                y = Gather (x, some)
            }",
        );
    }

    #[test]
    fn an_index_behind_the_end_is_unchanged() {
        let text = |less: i64| {
            format!(
                "g (float[T,4] x) => (float[1,4] y) {{
                    n = Shape <end = 1> (x) d = Constant <value_ints = [{less}]> ()
                    i = Sub (n, d) y = Gather (x, i) }}"
            )
        };
        assert!(!rewritten(&REWRITE, &text(2)).contains("Gather (x, i)"));
        stays(&REWRITE, &text(0));
        stays(&REWRITE, &text(-1));
    }
}
