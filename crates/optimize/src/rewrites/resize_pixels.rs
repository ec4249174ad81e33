//! Two `Gather`s that repeat every pixel along the last two axes → `Resize`, which is 2 to 15 times
//! as fast there. If channels come last, it is slower.
//!
//! Runs last, because it depends on the layout.

use std::sync::Arc;

use onnx::{Node, ValueId, attrs, fold};
use tensor::{DType, Tensor};

use crate::recognize::check_kernel;
use crate::{Form, Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("resize_pixels", &["Gather"], try_at);

/// The largest image whose indices are exact in the 32-bit floats that the runtime computes with.
const LARGEST: usize = 1 << 20;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let between = m.operand(0)?;
    let (outer, last) = repeats(m, m.root()).ok_or("the indices do not repeat elements")?;
    let node = m.producer(between, &["Gather"]).filter(|_| m.is_used_once(between));
    let node = node.ok_or("one axis is repeated")?;
    let (inner, first) = repeats(m, node).ok_or("the indices do not repeat elements")?;
    let x = node.input(0).ok_or("an operand is missing")?;
    if m.ty(x).rank() != 4 || outer.min(inner) != 2 || outer.max(inner) != 3 {
        return Err("channels come last".into());
    }
    let mut counts = [1; 4];
    (counts[outer], counts[inner]) = (last, first);
    Ok(vec![resize(m, x, &counts)?])
}

/// Returns the axis along which a `Gather` repeats each element, and the number of repetitions.
fn repeats(m: &Match<'_>, node: &Node) -> Option<(usize, i64)> {
    let shape = &m.ty(node.input(0)?).shape;
    let axis = fold::axis(node.int("axis", 0), shape.len()).ok()?;
    let size = shape[axis].as_known().filter(|size| *size > 0)?;
    let places = node.input(1).filter(|places| m.ty(*places).rank() == 1)?;
    let places = m.ints(places).filter(|places| places.len() <= LARGEST)?;
    let count = places.len() as i64 / size;
    let repeats = count > 1
        && places.len() as i64 == count * size
        && (0..).zip(&places).all(|(i, place)| *place == i / count);
    repeats.then_some((axis, count))
}

/// Emits a `Resize` that repeats each element of `x` `counts` times along the axes, if the user and
/// the target allow it.
pub(super) fn resize(m: &mut Match<'_>, x: ValueId, counts: &[i64]) -> Result<ValueId, Skip> {
    Skip::when(m.forms().of("Resize") == Form::Elementary, "the elementary form was requested")?;
    check_kernel(m.forms(), "Resize", m.ty(x).dtype)?;
    #[expect(clippy::cast_precision_loss, reason = "an image is not repeated that often")]
    let scales: Vec<u8> = counts.iter().flat_map(|n| (*n as f32).to_le_bytes()).collect();
    let scales = Tensor::new(DType::F32, &[counts.len()], Arc::new(scales));
    let scales = m.tensor(scales.map_err(|_| "there is a scale for each axis")?);
    let attrs = attrs! {
        mode: "nearest", coordinate_transformation_mode: "asymmetric", nearest_mode: "floor"
    };
    Ok(m.op_many("Resize", vec![Some(x), None, Some(scales)], attrs, 1)?[0])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn pixels_of_channels_are_repeated() {
        rewrites_to(
            &REWRITE,
            "g (float[B,4,2,3] x) => (float[B,4,4,9] y) {
                rows = Constant <value_ints = [0, 0, 1, 1]> ()
                columns = Constant <value_ints = [0, 0, 0, 1, 1, 1, 2, 2, 2]> ()
                z = Gather <axis = 3> (x, columns)
                y = Gather <axis = 2> (z, rows)
            }",
            "g (float[B,4,2,3] x) => (float[B,4,4,9] y) {
                scales = Constant <value_floats = [1.0, 1.0, 2.0, 3.0]> ()
                y = Resize <mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"> (x, , scales)
            }",
        );
    }

    #[test]
    fn other_indices_axes_and_types_are_unchanged() {
        for (dtype, first, second, rows) in [
            ("float", 1, 2, "[0, 0, 1, 1]"),
            ("float", 2, 3, "[0, 1, 0, 1]"),
            ("float", 2, 3, "[0, 0, 1]"),
            ("double", 2, 3, "[0, 0, 1, 1]"),
        ] {
            stays(
                &REWRITE,
                &format!(
                    "g ({dtype}[2,2,2,2] x) => ({dtype}[?,?,?,?] y) {{
                        rows = Constant <value_ints = {rows}> ()
                        z = Gather <axis = {first}> (x, rows)
                        y = Gather <axis = {second}> (z, rows)
                    }}"
                ),
            );
        }
    }

    #[test]
    fn images_of_other_ranks_and_with_other_readers_are_unchanged() {
        let text = |shape: &str, axes: [i64; 2], results: &str| {
            format!(
                "g (float[{shape}] x) => ({results}) {{
                    rows = Constant <value_ints = [0, 0, 1, 1]> ()
                    z = Gather <axis = {}> (x, rows) y = Gather <axis = {}> (z, rows) }}",
                axes[0], axes[1]
            )
        };
        let image = "float[2,2,4,4] y";
        for axes in [[2, 3], [3, 2]] {
            let after = crate::testing::rewritten(&REWRITE, &text("2,2,2,2", axes, image));
            assert!(after.contains("Resize"), "{after}");
        }
        stays(&REWRITE, &text("2,2,2,2", [2, 3], &format!("{image}, float[2,2,4,2] z")));
        stays(&REWRITE, &text("2,2,2,2,2", [2, 3], "float[2,2,4,4,2] y"));
        stays(&REWRITE, &text("2,2,2,2", [3, 3], "float[2,2,2,4] y"));
    }
}
