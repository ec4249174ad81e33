//! `Gather(x[::-1], i)` → `Gather(x, -1 - i)`, if the indices are known.

use onnx::{ValueId, fold, reversed};

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("gather_from_reversed", &["Gather"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (data, indices) = (m.operand(0)?, m.operand(1)?);
    let axis = fold::axis(m.root().int("axis", 0), m.ty(data).rank())?;
    let slice = m.producer(data, &["Slice"]).ok_or("nothing is reversed")?;
    let source = reversed(m.graph(), slice, axis).ok_or("the slice is not a plain reversal")?;
    let places = m.ints(indices).ok_or("the places are not known")?;
    // Indices count from either end, so those out of range stay out of range.
    let places: Vec<i64> = places.into_iter().map(|place| -1 - place).collect();
    let places = m.i64s_like(&places, indices)?;
    Ok(vec![m.like(&m.root().clone(), vec![Some(source), Some(places)])?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn the_first_element_of_a_reversed_value_is_the_last() {
        rewrites_to(
            &REWRITE,
            "g (float[2,T] x) => (float[2] y, float[2,2] z) {
                one = Constant <value_ints = [-1]> ()
                end = Constant <value_ints = [-9223372036854775808]> ()
                axis = Constant <value_ints = [1]> ()
                first = Constant <value_int = 0> ()
                two = Constant <value_ints = [1, -1]> ()
                r = Slice (x, one, end, axis, one)
                y = Gather <axis = 1> (r, first)
                z = Gather <axis = 1> (r, two)
            }",
            "g (float[2,T] x) => (float[2] y, float[2,2] z) {
                last = Constant <value_int = -1> ()
                two = Constant <value_ints = [-2, 0]> ()
                y = Gather <axis = 1> (x, last)
                z = Gather <axis = 1> (x, two)
            }",
        );
    }

    #[test]
    fn another_axis_or_slice_is_unchanged() {
        for (end, axis) in [("-9223372036854775808", 0), ("1", 1)] {
            stays(
                &REWRITE,
                &format!(
                    "g (float[2,T] x) => (float[2] y) {{
                        one = Constant <value_ints = [-1]> ()
                        end = Constant <value_ints = [{end}]> ()
                        axis = Constant <value_ints = [{axis}]> ()
                        first = Constant <value_int = 0> ()
                        r = Slice (x, one, end, axis, one)
                        y = Gather <axis = 1> (r, first)
                    }}"
                ),
            );
        }
    }
}
