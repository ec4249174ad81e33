//! `Reshape`, `Expand` and `Reshape`, once for each axis of an image along which `jnp.repeat`
//! repeats pixels → one `Gather` per axis, or one `Resize` if a size is symbolic. Both can be moved
//! to another layout.

use onnx::{Node, ValueId, attrs};
use tensor::{Dim, Tensor};

use super::resize_pixels::resize;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("repeat_pixels", &["Reshape"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (wide, result) = (m.operand(0)?, m.result()?);
    let (x, counts) = repeated(m, wide, result).ok_or("nothing is repeated")?;
    // A single repeated axis may be the heads of attention, which is already as short as possible.
    if counts.len() != 4 || counts.iter().filter(|count| **count > 1).count() != 2 {
        return Err("it is not an image".into());
    }
    let axes = || counts.iter().enumerate().filter(|(_, count)| **count > 1);
    let sizes: Option<Vec<i64>> = axes().map(|(axis, _)| m.ty(x).shape[axis].as_known()).collect();
    let Some(sizes) = sizes else {
        return Ok(vec![resize(m, x, &counts)?]);
    };
    let mut value = x;
    for ((axis, &count), size) in axes().zip(sizes) {
        let places: Vec<i64> = (0..size).flat_map(|place| (0..count).map(move |_| place)).collect();
        let places = m.tensor(Tensor::i64s(&places));
        value = m.op("Gather", &[value, places], attrs! { axis: axis as i64 })?;
    }
    Ok(vec![value])
}

/// Returns the value that is repeated to form `result`, and the number of repetitions along each
/// axis. `wide` has an axis for the copies.
fn repeated(m: &Match<'_>, wide: ValueId, result: ValueId) -> Option<(ValueId, Vec<i64>)> {
    let mut shape = m.ty(result).shape.clone();
    let mut counts = vec![1; shape.len()];
    let mut wide = wide;
    let mut found = None;
    while let Some((narrow, axis, count)) = copies(m, wide, &shape) {
        shape[axis] = m.ty(narrow).shape[axis].clone();
        counts[axis] *= count;
        let apart = m.producer(narrow, &["Reshape", "Unsqueeze"])?;
        let source = apart.input(0)?;
        wide = source;
        if m.ty(source).shape == shape {
            found = Some((source, counts.clone()));
            let reshape = m.producer(source, &["Reshape"]).filter(|_| m.is_used_once(source));
            let Some(before) = reshape.and_then(|node: &Node| node.input(0)) else { break };
            wide = before;
        }
    }
    found
}

/// Returns the operand of an `Expand` that copies along its own axis, the index of the preceding
/// axis, and the number of copies. The two axes are merged in `shape`.
fn copies(m: &Match<'_>, wide: ValueId, shape: &[Dim]) -> Option<(ValueId, usize, i64)> {
    let narrow = m.producer(wide, &["Expand"]).filter(|_| m.is_used_once(wide))?.input(0)?;
    let (from, to) = (&m.ty(narrow).shape, &m.ty(wide).shape);
    if from.len() != to.len() || from.len() != shape.len() + 1 {
        return None;
    }
    let at = from.iter().zip(to).position(|(from, to)| from != to).filter(|at| *at > 0)?;
    let count = to[at].as_known().filter(|_| from[at] == Dim::Known(1))?;
    let merged = from[at - 1].clone() * Dim::Known(count);
    let is_merged = shape[..at - 1] == from[..at - 1]
        && shape[at - 1] == merged
        && shape[at..] == from[at + 1..];
    is_merged.then_some((narrow, at - 1, count))
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn repeated_pixels_are_gathered() {
        rewrites_to(
            &REWRITE,
            "g (float[B,2,3,4] x) => (float[B,4,9,4] y) <
                int64[5] a = {0, 2, 1, 3, 4}, int64[5] b = {1, 1, 2, 1, 1}, int64[5] c = {0, 4, 3, 1, 4},
                int64[5] d = {1, 1, 1, 3, 1}, int64[4] e = {0, 4, 9, 4}
            > {
                p = Reshape (x, a) q = Expand (p, b) r = Reshape (q, c) s = Expand (r, d) y = Reshape (s, e)
            }",
            "g (float[B,2,3,4] x) => (float[B,4,9,4] y) {
                rows = Constant <value_ints = [0, 0, 1, 1]> ()
                columns = Constant <value_ints = [0, 0, 0, 1, 1, 1, 2, 2, 2]> ()
                v1 = Gather <axis = 1> (x, rows)
                y = Gather <axis = 2> (v1, columns)
            }",
        );
    }

    #[test]
    fn images_of_symbolic_size_are_resized() {
        rewrites_to(
            &REWRITE,
            "g (float[1,4,H,W] x) => (float[1,4,\"2*H\",\"2*W\"] y) <
                int64[5] a = {1, 4, -1, 1, 0}, int64[5] b = {1, 1, 1, 2, 1}, int64[1] last = {4},
                int64[5] d = {1, 1, 1, 1, 2}, int64[4] e = {0, 0, 0, -1}, int64[4] f = {1, 4, -1, 0}
            > {
                one = Constant <value_ints = [3]> ()
                p = Unsqueeze (x, one) q = Expand (p, b) w = Shape <start = 3> (x)
                four = Constant <value_ints = [1, 4, -1]> () t = Concat <axis = 0> (four, w)
                r = Reshape (q, t)
                u = Unsqueeze (r, last) s = Expand (u, d) y = Reshape (s, e)
            }",
            "g (float[1,4,H,W] x) => (float[1,4,\"2*H\",\"2*W\"] y) {
                scales = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
                y = Resize <mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"> (x, , scales)
            }",
        );
    }

    #[test]
    fn one_axis_and_copies_of_the_whole_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[B,2,3,4] x) => (float[B,4,3,4] y) <
                int64[5] a = {0, 2, 1, 3, 4}, int64[5] b = {1, 1, 2, 1, 1}, int64[4] c = {0, 4, 3, 4}
            > { p = Reshape (x, a) q = Expand (p, b) y = Reshape (q, c) }",
        );
        stays(
            &REWRITE,
            "g (float[1,2,3,4] x) => (float[1,4,9,4] y) <
                int64[5] a = {1, 1, 2, 3, 4}, int64[5] b = {1, 2, 1, 1, 1}, int64[5] c = {1, 4, 3, 1, 4},
                int64[5] d = {1, 1, 1, 3, 1}, int64[4] e = {1, 4, 9, 4}
            > {
                p = Reshape (x, a) q = Expand (p, b) r = Reshape (q, c) s = Expand (r, d) y = Reshape (s, e)
            }",
        );
    }

    #[test]
    fn copies_with_other_readers_or_in_another_order_are_unchanged() {
        let plain = "g (float[B,2,3,4] x) => (float[B,4,9,4] y) <
            int64[5] a = {0, 2, 1, 3, 4}, int64[5] b = {1, 1, 2, 1, 1}, int64[5] c = {0, 4, 3, 1, 4},
            int64[5] d = {1, 1, 1, 3, 1}, int64[4] e = {0, 4, 9, 4}
        > {
            p = Reshape (x, a) q = Expand (p, b) r = Reshape (q, c) s = Expand (r, d) y = Reshape (s, e)
        }";
        assert!(crate::testing::rewritten(&REWRITE, plain).contains("Gather"));
        stays(&REWRITE, &plain.replace("=> (", "=> (float[B,4,3,3,4] s, "));
        // Rows are repeated as a whole.
        let whole = plain
            .replace("a = {0, 2, 1, 3, 4}", "a = {0, 1, 2, 3, 4}")
            .replace("b = {1, 1, 2, 1, 1}", "b = {1, 2, 1, 1, 1}");
        stays(&REWRITE, &whole);
    }
}
