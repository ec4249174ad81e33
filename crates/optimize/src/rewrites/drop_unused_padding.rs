//! `Slice(ScatterND(Pad(x)))` → `ScatterND(x)`, if the slice removes the padding and all indices
//! are proved to be inside `x`. The padding only receives writes that are out of bounds.

use onnx::ValueId;
use tensor::Dim;

use super::padding::Padding;
use crate::index_vectors::Element;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("drop_unused_padding", &["Slice"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let scatter = m.producer(m.operand(0)?, &["ScatterND"]).ok_or("nothing is written")?.clone();
    let padded = scatter.input(0).ok_or("an operand is missing")?;
    let indices = scatter.input(1).ok_or("an operand is missing")?;
    let Padding { x, amounts, .. } =
        Padding::of(m, padded).ok_or("nothing is padded by known amounts")?;
    if amounts.iter().skip(1).any(|sides| *sides != (0, 0))
        || amounts.first().is_none_or(|first| first.0 != 0)
    {
        return Err("something else is padded".into());
    }
    // The slice starts at zero, so a result with the shape of `x` has the position of `x`.
    let starts = m.ints(m.operand(1)?).ok_or("the cut is computed")?;
    let steps = m.root().input(4).map(|steps| m.ints(steps).ok_or("the cut is computed"));
    let steps = steps.transpose()?.unwrap_or_default();
    let is_start = starts.iter().all(|start| *start == 0) && steps.iter().all(|step| *step == 1);
    Skip::when(!is_start || m.ty(m.result()?) != m.ty(x), "something else is cut off")?;
    let element = Element::of(m.graph(), indices, 0).ok_or("places are computed otherwise")?;
    let extent = m.ty(x).shape[0].clone();
    let counted = element.along.iter().try_fold(Dim::Known(1), |n, axis| {
        Some(n + m.ty(indices).shape.get(*axis)?.clone() - Dim::Known(1))
    });
    let last = extent.clone() - counted.ok_or("an axis is missing")?;
    let is_inside = match element.modulo {
        Some(modulo) => extent.as_known().is_some_and(|extent| modulo <= extent),
        None => {
            element.is_at_least(m.graph(), &Dim::Known(0)) && element.is_at_most(m.graph(), &last)
        }
    };
    Skip::when(!is_inside, "something may be written outside")?;
    Ok(vec![m.like_with(&scatter, 0, x)?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, rewritten, stays};

    fn written(by: i64) -> String {
        format!(
            "g (float[8,4] x, float[3,4] u, int64[1] p) => (float[8,4] y) {{
                pads = Constant <value_ints = [0, 0, 1, 0]> ()
                padded = Pad (x, pads)
                steps = Constant <value_ints = [0, 1, 2]> ()
                places = Add (p, steps)
                by = Constant <value_int = {by}> ()
                inside = Mod (places, by)
                axis = Constant <value_ints = [1]> ()
                at = Unsqueeze (inside, axis)
                all = ScatterND (padded, at, u)
                zero = Constant <value_ints = [0]> ()
                eight = Constant <value_ints = [8]> ()
                y = Slice (all, zero, eight, zero)
            }}"
        )
    }

    #[test]
    fn nothing_is_written_into_the_padding() {
        rewrites_to(
            &REWRITE,
            &written(8),
            "g (float[8,4] x, float[3,4] u, int64[1] p) => (float[8,4] y) {
                steps = Constant <value_ints = [0, 1, 2]> ()
                places = Add (p, steps)
                by = Constant <value_int = 8> ()
                inside = Mod (places, by)
                axis = Constant <value_ints = [1]> ()
                at = Unsqueeze (inside, axis)
                y = ScatterND (x, at, u)
            }",
        );
    }

    #[test]
    fn padding_that_may_be_written_is_kept() {
        stays(&REWRITE, &written(9));
    }

    #[test]
    fn places_that_are_clipped_are_inside() {
        for (last, is_inside) in [(5, true), (6, false)] {
            let text = written(8)
                .replace("Add (p, steps)", "Add (c, steps)")
                .replace("inside = Mod (places, by)", "inside = Identity (places)")
                .replace("by = Constant <value_int = 8> ()", "")
                .replace(
                    "steps = Const",
                    &format!(
                        "low = Constant <value_int = 0> () high = Constant <value_int = {last}> ()
                         c = Clip (p, low, high) steps = Const"
                    ),
                );
            assert_eq!(!rewritten(&REWRITE, &text).contains("Pad "), is_inside, "{last}");
        }
    }

    #[test]
    fn other_padding_and_slices_are_unchanged() {
        let plain = written(8);
        for text in [
            plain.replace("[0, 0, 1, 0]", "[1, 0, 0, 0]"),
            plain.replace("[0, 0, 1, 0]", "[1, 0, 1, 0]"),
            plain.replace("[0, 0, 1, 0]", "[0, 1, 1, -1]"),
            plain.replace("Pad (x, pads)", "Pad <mode = \"edge\"> (x, pads)"),
            plain
                .replace(
                    "zero = Constant <value_ints = [0]>",
                    "zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]>",
                )
                .replace("[8]> ()", "[9]> ()")
                .replace("Slice (all, zero,", "Slice (all, one,"),
        ] {
            stays(&REWRITE, &text);
        }
    }
}
