//! Counts the axes of reductions from the front.
//!
//! If an operand is empty, onnxruntime's kernels do not recognise axes that count from the end. The
//! result then has the shape of the operand.

use onnx::operators::Operator;
use onnx::{Attr, NodeId, fold};
use tensor::Dim;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(super) static BUG: Bug =
    Bug { name: "axes_from_the_end", roots: Roots::With(Operator::is_reduction), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    let Some(x) = node.input(0) else { return Ok(()) };
    let has_elements = |size: &Dim| size.as_known().is_some_and(|size| size > 0);
    if work.graph().ty(x).shape.iter().all(has_elements) {
        return Ok(());
    }
    let rank = work.graph().ty(x).rank();
    let from_the_front = |axis: i64| fold::axis(axis, rank).map_or(axis, |axis| axis as i64);
    if node.is("ArgMax") || node.is("ArgMin") {
        let attrs = work.edit.attrs_mut(id);
        for (_, value) in attrs.iter_mut().filter(|(name, _)| *name == "axis") {
            if let Attr::Int(axis) = value {
                *axis = from_the_front(*axis);
            }
        }
        return Ok(());
    }
    let Some(axes) = node.input(1) else { return Ok(()) };
    let Some(known) = work.graph().facts().constant(axes).and_then(|axes| axes.to_i64s()) else {
        return Ok(());
    };
    if known.iter().any(|axis| *axis < 0) {
        let axes: Vec<i64> = known.into_iter().map(from_the_front).collect();
        let axes = work.builder(id).i64s(&axes);
        work.set_input(id, 1, axes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn indices_of_extrema_count_axes_from_the_front() {
        for op in ["ArgMax", "ArgMin"] {
            let text = |size: &str| {
                let text = format!(
                    "g (float[{size},3] x) => (int64[{size},1] y) {{ y = {op} <axis = -1> (x) }}"
                );
                crate::legalize::testing::legalized_text(&text, crate::Target::default())
            };
            assert!(text("B").contains("axis: int = 1"), "{}", text("B"));
            assert!(text("2").contains("axis: int = -1"), "{}", text("2"));
        }
    }
}
