//! `TopK` of an operand of symbolic size, after another one along an axis of the same size → `TopK` of a longer
//! axis, for targets that write the positions of both into one tensor.

use onnx::{Attrs, NodeId};
use tensor::{Dim, Tensor};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static DISTINCT_SORTS: Bug =
    Bug { name: "distinct_sorts", roots: Roots::Named(&["TopK"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    let Some(x) = node.input(0) else { return Ok(()) };
    let ty = work.graph().ty(x).clone();
    let rank = ty.rank();
    if ty.static_shape().is_some() {
        return Ok(());
    }
    let largest = node.int("largest", 1) == 1;
    let Ok(axis) = usize::try_from(node.int("axis", -1).rem_euclid(rank as i64)) else {
        return Ok(());
    };
    let size = &ty.shape[axis];
    let mut added = work.sorted.get(size).copied().unwrap_or(0);
    while added > 0 && work.sorted.contains_key(&(size.clone() + Dim::Known(added))) {
        added += 1;
    }
    work.sorted.insert(size.clone(), added + 1);
    if added == 0 {
        return Ok(());
    }
    work.sorted.insert(size.clone() + Dim::Known(added), 1);

    let mut pads = vec![0; 2 * rank];
    pads[rank + axis] = added;
    let b = &mut work.builder(id);
    let pads = b.i64s(&pads);
    // The added elements come last. Equal elements are in the order of their positions.
    let last = match ty.dtype.int_range() {
        Some((lowest, highest)) => {
            Tensor::int_scalar(ty.dtype, if largest { lowest } else { highest })
        }
        None => Tensor::scalar(ty.dtype, if largest { f64::NEG_INFINITY } else { f64::INFINITY }),
    };
    let last = last.ok_or_else(|| onnx::Error::Graph(format!("{} has no order", ty.dtype)))?;
    let last = b.constant(last);
    let padded = b.op("Pad", &[x, pads, last], Attrs::new())?;
    work.edit.set_input(id, 0, Some(padded));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn later_sorts_along_axes_of_the_same_size_get_longer() {
        let sorted = |batch: &str, dtype: &str, target: &str| {
            let text = format!(
                "g ({dtype}[{batch},5] x) => (int64[{batch},2] i, int64[{batch},2] j, int64[{batch},2] k) {{
                    two = Constant <value_ints = [2]> ()
                    a, i = TopK (x, two)
                    b, j = TopK <largest = 0> (x, two)
                    c, k = TopK (x, two)
                }}"
            );
            spelled(&text, target).unwrap()
        };
        let text = sorted("B", "float", "iree");
        assert_eq!(text.matches("= Pad").count(), 2, "{text}");
        assert!(text.contains("[0, 0, 0, 1]") && text.contains("[0, 0, 0, 2]"), "{text}");
        assert!(text.contains("float = inf") && text.contains("float = -inf"), "{text}");
        // The second one sorts upwards, and the third one downwards.
        assert!(text.find("float = inf") < text.find("float = -inf"), "{text}");
        assert!(sorted("B", "int32", "iree").contains("-2147483648"));
        assert!(!sorted("4", "float", "iree").contains("= Pad"));
        assert!(!sorted("B", "float", "tract").contains("= Pad"));
    }
}
