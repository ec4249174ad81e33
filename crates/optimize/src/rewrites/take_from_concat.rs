//! `Gather` or `Slice` of a `Concat`, reading only elements of one operand → that operand, or a
//! `Gather` or `Slice` of it.

use onnx::{Node, Part, ValueId, fold};
use tensor::Dim;

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("take_from_concat", &["Gather", "Slice"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let whole = m.operand(0)?;
    let concat = m.producer(whole, &["Concat"]).ok_or("the operand is not a Concat")?.clone();
    let axis = fold::axis(concat.int("axis", 0), m.ty(whole).rank())?;
    let size = m.ty(whole).shape[axis].as_known();
    let root = m.root().clone();
    let places = if root.is("Gather") {
        gathered(m, &root, axis, size)?
    } else {
        let part = Part::of(m.graph(), &root, m.result()?).ok_or("the places are not known")?;
        Skip::when(part.axis != axis, "it is cut along another axis")?;
        size.ok_or("the size is not known")?;
        part.indices().collect()
    };
    let (part, offset) = part_with(m, &concat, axis, &places)?;
    let all = m.ty(part).shape[axis].clone();
    let places: Vec<i64> = places.iter().map(|place| place - offset).collect();
    let keeps_axis = root.is("Slice") || m.ty(m.operand(1)?).rank() == 1;
    let count = places.len() as i64;
    if keeps_axis && all == Dim::Known(count) && places.iter().copied().eq(0..count) {
        return Ok(vec![part]);
    }
    let mut inputs = root.inputs.clone();
    inputs[0] = Some(part);
    if root.is("Gather") {
        inputs[1] = Some(m.i64s_like(&places, m.operand(1)?)?);
    } else {
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Err("nothing is taken".into());
        };
        inputs[1] = Some(m.i64s(&[*first]));
        inputs[2] = Some(m.i64s(&[last + 1]));
    }
    Ok(vec![m.like(&root, inputs)?])
}

/// Returns the indices that a `Gather` reads along the axis.
fn gathered(m: &Match<'_>, node: &Node, axis: usize, size: Option<i64>) -> Result<Vec<i64>, Skip> {
    let (data, indices) = (m.operand(0)?, m.operand(1)?);
    if fold::axis(node.int("axis", 0), m.ty(data).rank())? != axis {
        return Err("another axis is indexed".into());
    }
    let places = m.ints(indices).ok_or("the places are not known")?;
    let from_start = |place: i64| if place < 0 { Some(place + size?) } else { Some(place) };
    let places: Option<Vec<i64>> = places.into_iter().map(from_start).collect();
    Ok(places.ok_or("places are counted from an end that is not known")?)
}

/// Returns the operand that contains all the indices, and its offset.
fn part_with(
    m: &Match<'_>,
    concat: &Node,
    axis: usize,
    places: &[i64],
) -> Result<(ValueId, i64), Skip> {
    let (Some(low), Some(high)) = (places.iter().min(), places.iter().max()) else {
        return Err("nothing is taken".into());
    };
    let mut offset = 0;
    for part in concat.inputs.iter().copied() {
        let part = part.ok_or("an operand is missing")?;
        let size = m.ty(part).shape[axis].as_known().ok_or("the size of a part is not known")?;
        if (offset..offset + size).contains(low) {
            return match *high < offset + size {
                true => Ok((part, offset)),
                false => Err("several operands are read".into()),
            };
        }
        offset += size;
    }
    Err("the places are outside".into())
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn a_whole_operand_is_read_directly() {
        rewrites_to(
            &REWRITE,
            "g (int32[B,1] i, int32[B,2] j) => (int32[B,1] a, int32[B,2] b) {
                c = Concat <axis = -1> (i, j)
                first = Constant <value_ints = [0]> ()
                p = Gather <axis = 1> (c, first)
                a = Neg (p)
                one = Constant <value_ints = [1]> ()
                end = Constant <value_ints = [9223372036854775807]> ()
                q = Slice (c, one, end, one)
                b = Neg (q)
            }",
            "g (int32[B,1] i, int32[B,2] j) => (int32[B,1] a, int32[B,2] b) {
                a = Neg (i)
                b = Neg (j)
            }",
        );
    }

    #[test]
    fn an_element_of_an_operand_is_read_from_it() {
        rewrites_to(
            &REWRITE,
            "g (float[B,4] x, float[B,3] y) => (float[B] r, float[B,2] s) {
                c = Concat <axis = 1> (x, y)
                last = Constant <value_int = -1> ()
                r = Gather <axis = 1> (c, last)
                one = Constant <value_ints = [1]> ()
                four = Constant <value_ints = [4]> ()
                two = Constant <value_ints = [2]> ()
                s = Slice (c, one, four, one, two)
            }",
            "g (float[B,4] x, float[B,3] y) => (float[B] r, float[B,2] s) {
                v0 = Constant <value_int = 2> ()
                r = Gather <axis = 1> (y, v0)
                one = Constant <value_ints = [1]> ()
                four = Constant <value_ints = [4]> ()
                axis = Constant <value_ints = [1]> ()
                two = Constant <value_ints = [2]> ()
                s = Slice (x, one, four, axis, two)
            }",
        );
    }

    #[test]
    fn reads_of_several_operands_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[B,4] x, float[B,3] y) => (float[B,2] r) {
                c = Concat <axis = 1> (x, y)
                some = Constant <value_ints = [3, 4]> ()
                r = Gather <axis = 1> (c, some)
            }",
        );
        stays(
            &REWRITE,
            "g (float[B,4] x, float[C,4] y) => (float[1,4] r) {
                c = Concat <axis = 0> (x, y)
                some = Constant <value_ints = [0]> ()
                r = Gather <axis = 0> (c, some)
            }",
        );
    }

    #[test]
    fn elements_in_another_order_are_gathered_from_one_operand() {
        let text = |indices: &str, result: &str, from: &str| {
            format!(
                "g (float[B,4] x, float[B,2] y) => (float[{result}] r) {{
                    i = Constant <value{indices}> () {from} }}"
            )
        };
        let whole = "c = Concat <axis = 1> (x, y) r = Gather <axis = 1> (c, i)";
        let part = "r = Gather <axis = 1> (y, i)";
        for (before, after, result) in [
            ("_ints = [5, 4]", "_ints = [1, 0]", "B,2"),
            ("_ints = [4, 4]", "_ints = [0, 0]", "B,2"),
            ("_ints = [5]", "_ints = [1]", "B,1"),
            ("_int = 4", "_int = 0", "B"),
        ] {
            rewrites_to(&REWRITE, &text(before, result, whole), &text(after, result, part));
        }
    }

    #[test]
    fn a_single_index_removes_the_axis_of_a_whole_operand() {
        rewrites_to(
            &REWRITE,
            "g (float[B,4] x, float[B,1] y) => (float[B] r) {
                c = Concat <axis = 1> (x, y) i = Constant <value_int = 4> ()
                r = Gather <axis = 1> (c, i)
            }",
            "g (float[B,4] x, float[B,1] y) => (float[B] r) {
                i = Constant <value_int = 0> () r = Gather <axis = 1> (y, i)
            }",
        );
    }
}
