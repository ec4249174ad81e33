//! `Squeeze(Slice(x))` and `Squeeze(Split(x))` of one place along an axis → `Gather(x, i)`: `q, k, v = x` is one
//! node for each of them. A runtime that merges several of them into one `Split` is as fast.
//!
//! Comes last: a slice can be moved and recognised as a part of something, which a number's lookup cannot.

use onnx::{Node, Use, ValueId, attrs, fold};
use tensor::{Dim, Tensor};

use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "gather_single_slice", roots: Roots::Named(&["Squeeze"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let part = m.operand(0)?;
    let axes = m.ints(m.operand(1)?).ok_or("the axes are not known")?;
    let node = m.producer(part, &["Slice", "Split"]).ok_or("nothing is cut out")?.clone();
    let x = node.input(0).ok_or("an operand is missing")?;
    let axis = match *axes.as_slice() {
        [axis] => fold::axis(axis, m.ty(x).rank())?,
        _ => return Err("several axes go".into()),
    };
    if m.graph().constant(x).is_some() {
        return Err("what is cut out is a constant".into());
    }
    let place = if node.is("Slice") {
        if !m.is_used_once(part) {
            return Err("the slice is read elsewhere".into());
        }
        start(m, &node, x, axis)?
    } else {
        check_split(m, &node, x, axis)?;
        let before = node.outputs.iter().take_while(|output| **output != part);
        let sizes = before.map(|output| size(m, *output, axis)?.as_known());
        sizes.sum::<Option<i64>>().ok_or("the sizes are not known")?
    };
    let index = Tensor::i64s(&[place]).reshaped(&[]).map_err(|_| "a number has one element")?;
    let index = m.tensor(index);
    Ok(vec![m.op("Gather", &[x, index], attrs! { axis: axis as i64 })?])
}

fn size<'m>(m: &'m Match<'_>, value: ValueId, axis: usize) -> Option<&'m Dim> {
    m.ty(value).shape.get(axis)
}

/// The only place that a `Slice` takes along the axis, and all along others.
fn start(m: &Match<'_>, slice: &Node, x: ValueId, axis: usize) -> Result<i64, Skip> {
    let ints = |i: usize| slice.input(i).and_then(|value| m.ints(value));
    let (starts, axes) = (ints(1).ok_or("the place is not known")?, ints(3));
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = match slice.input(4) {
        Some(_) => ints(4).ok_or("the steps are not known")?,
        None => vec![1],
    };
    let ([start], [along], [1]) = (&*starts, &*axes, &*steps) else {
        return Err("it is cut along several axes".into());
    };
    let along = fold::axis(*along, m.ty(x).rank())?;
    if along != axis || size(m, slice.outputs[0], axis) != Some(&Dim::Known(1)) {
        return Err("another axis goes".into());
    }
    Ok(match size(m, x, axis).and_then(Dim::as_known) {
        // A slice starts with the first element, however far before it is said to start.
        Some(size) if *start < 0 => (start + size).max(0),
        _ => *start,
    })
}

/// Checks that all that is read of a `Split` are single places without their axis: it is gone then.
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
    fn what_is_unpacked_is_looked_up() {
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
    fn what_keeps_its_axis_stays() {
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
