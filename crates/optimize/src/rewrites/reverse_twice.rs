//! `x[::-1][::-1]` → `x`.

use onnx::{ValueId, fold};

use crate::passes::scan_backwards::reversed;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite { name: "reverse_twice", roots: &["Slice"], try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let once = m.operand(0)?;
    let axes = m.root().input(3).and_then(|axes| m.ints(axes)).ok_or("the axes are not known")?;
    let [axis] = *axes.as_slice() else { return Err("it is cut along several axes".into()) };
    let axis = fold::axis(axis, m.ty(once).rank())?;
    reversed(m.graph(), m.root(), axis).ok_or("nothing is reversed")?;
    let slice = m.producer(once, &["Slice"]).ok_or("it is reversed once")?;
    Ok(vec![reversed(m.graph(), slice, axis).ok_or("something else is cut before")?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    fn twice(first: usize, second: usize) -> String {
        format!(
            "g (float[2,T] x) => (float[2,T] y)
                <int64[1] one = {{-1}}, int64[1] end = {{-9223372036854775808}}> {{
                a = Constant <value_ints = [{first}]> ()
                b = Constant <value_ints = [{second}]> ()
                r = Slice (x, one, end, a, one)
                s = Slice (r, one, end, b, one)
                y = Neg (s)
            }}"
        )
    }

    #[test]
    fn what_is_reversed_twice_is_as_it_was() {
        let same = "g (float[2,T] x) => (float[2,T] y) { y = Neg (x) }";
        rewrites_to(&REWRITE, &twice(1, 1), same);
        rewrites_to(&REWRITE, &twice(0, 0), same);
    }

    #[test]
    fn another_axis_stays() {
        stays(&REWRITE, &twice(0, 1));
    }
}
