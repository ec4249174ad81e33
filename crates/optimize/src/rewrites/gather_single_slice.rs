//! `Squeeze(Slice(x))` and `Squeeze(Split(x))` of one index along an axis → `Gather(x, i)`.
//! Unpacking `q, k, v = x` becomes one node per value. A runtime that merges several of them
//! into one `Split` is as fast.
//!
//! Runs last: other rewrites can move a slice or recognise it as part of a larger pattern, but not
//! a lookup by number.

use onnx::{Node, Part, Use, ValueId, attrs, fold};
use tensor::Tensor;

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("gather_single_slice", &["Squeeze"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let part = m.operand(0)?;
    let axes = m.ints(m.operand(1)?).ok_or("the axes are not known")?;
    let node = m.producer(part, &["Slice", "Split"]).ok_or("nothing is cut out")?.clone();
    let x = node.input(0).ok_or("an operand is missing")?;
    let axis = match *axes.as_slice() {
        [axis] => fold::axis(axis, m.ty(x).rank())?,
        _ => return Err("several axes are squeezed".into()),
    };
    Skip::when(m.graph().tensor(x).is_some(), "what is cut out is a constant")?;
    Skip::when(node.is("Slice") && !m.is_used_once(part), "the slice is read elsewhere")?;
    if node.is("Split") {
        check_split(m, &node, x, axis)?;
    }
    let found = Part::of(m.graph(), &node, part).ok_or("the place is not known")?;
    Skip::when(found.axis != axis, "another axis is squeezed")?;
    let index =
        Tensor::i64s(&[found.start]).reshaped(&[]).map_err(|_| "a number has one element")?;
    let index = m.tensor(index);
    Ok(vec![m.op("Gather", &[x, index], attrs! { axis: axis as i64 })?])
}

/// Checks that all results of a `Split` are squeezed along the axis, so that the `Split` becomes
/// unused.
fn check_split(m: &Match<'_>, split: &Node, x: ValueId, axis: usize) -> Result<(), Skip> {
    let graph = m.graph();
    let is_axis = |along: i64| fold::axis(along, m.ty(x).rank()) == Ok(axis);
    let is_single = |place: Use| {
        let Use::Operand(id, 0) = place else { return false };
        let squeeze = graph.node(id);
        let axes = squeeze.input(1).filter(|_| squeeze.is("Squeeze")).and_then(|v| m.ints(v));
        axes.is_some_and(|axes| matches!(*axes, [along] if is_axis(along)))
    };
    let mut outputs = split.outputs.iter();
    match is_axis(split.int("axis", 0))
        && outputs.all(|output| graph.value(*output).uses().all(is_single))
    {
        true => Ok(()),
        false => Err("parts are read with their axis".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn unpacked_values_are_gathered() {
        rewrites_to(
            &REWRITE,
            "g (float[2,T,8] x) => (float[2,8] y, float[T,8] z) {
                last = Constant <value_ints = [-1]> ()
                end = Constant <value_ints = [9223372036854775807]> ()
                one = Constant <value_ints = [1]> ()
                two = Constant <value_ints = [2]> ()
                none = Constant <value_ints = [0]> ()
                a = Slice (x, last, end, one)
                y = Squeeze (a, one)
                b = Slice (x, one, two, none)
                z = Squeeze (b, none)
            }",
            "g (float[2,T,8] x) => (float[2,8] y, float[T,8] z) {
                last = Constant <value_int = -1> ()
                y = Gather <axis = 1> (x, last)
                one = Constant <value_int = 1> ()
                z = Gather <axis = 0> (x, one)
            }",
        );
        rewrites_to(
            &REWRITE,
            "g (float[T,3] x) => (float[T] y, float[T] z) {
                axes = Constant <value_ints = [1]> ()
                a, b, c = Split <axis = -1, num_outputs = 3> (x)
                y = Squeeze (a, axes)
                z = Squeeze (c, axes)
            }",
            "g (float[T,3] x) => (float[T] y, float[T] z) {
                none = Constant <value_int = 0> ()
                y = Gather <axis = 1> (x, none)
                two = Constant <value_int = 2> ()
                z = Gather <axis = 1> (x, two)
            }",
        );
    }

    #[test]
    fn slices_that_keep_their_axis_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[T,2] x) => (float[T] y, float[T,1] z) {
                axes = Constant <value_ints = [1]> ()
                a, z = Split <axis = 1, num_outputs = 2> (x)
                y = Squeeze (a, axes)
            }",
        );
        stays(
            &REWRITE,
            "g (float[1,T,8] x) => (float[1,8] y) {
                one = Constant <value_ints = [1]> ()
                two = Constant <value_ints = [2]> ()
                none = Constant <value_ints = [0]> ()
                a = Slice (x, one, two, one)
                b = Squeeze (a, none)
                y = Identity (b)
            }",
        );
    }
}
