//! `x[::-1][::-1]` → `x`.

use onnx::{ValueId, reversal};

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("reverse_twice", &["Slice"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (once, axes) = reversal(m.graph(), m.root()).ok_or("nothing is reversed")?;
    let slice = m.producer(once, &["Slice"]).ok_or("it is reversed once")?;
    let (source, before) = reversal(m.graph(), slice).ok_or("something else is cut before")?;
    if axes == before { Ok(vec![source]) } else { Err("other axes are reversed before".into()) }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    fn twice(first: &[usize], second: &[usize]) -> String {
        let each = |number: i64| vec![number; first.len()];
        let (one, end) = (each(-1), each(i64::MIN));
        format!(
            "g (float[2,T] x) => (float[2,T] y) {{
                one = Constant <value_ints = {one:?}> ()
                end = Constant <value_ints = {end:?}> ()
                a = Constant <value_ints = {first:?}> ()
                b = Constant <value_ints = {second:?}> ()
                r = Slice (x, one, end, a, one)
                s = Slice (r, one, end, b, one)
                y = Neg (s)
            }}"
        )
    }

    #[test]
    fn two_reversals_cancel() {
        let same = "g (float[2,T] x) => (float[2,T] y) { y = Neg (x) }";
        rewrites_to(&REWRITE, &twice(&[1], &[1]), same);
        rewrites_to(&REWRITE, &twice(&[0], &[0]), same);
        rewrites_to(&REWRITE, &twice(&[0, 1], &[1, 0]), same);
    }

    #[test]
    fn another_axis_is_unchanged() {
        stays(&REWRITE, &twice(&[0], &[1]));
    }
}
