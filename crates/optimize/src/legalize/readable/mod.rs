//! Equivalent spellings that more tools can read.

mod attention;

use onnx::{Attr, Editor, NodeId, Result};
use tensor::{DType, Dim, Tensor};

use super::Legalizer;

/// Adds the largest possible limit to a `Loop` without one. Tools for symbolic shape inference read
/// the type of the operand.
fn limit_of_loop(edit: &mut Editor<'_>, id: NodeId) {
    let graph = edit.graph();
    let node = graph.node(id);
    if node.is("Loop") && node.input(0).is_none() && !node.inputs.is_empty() {
        let limit = Tensor::int_scalar(DType::I64, i64::MAX.into());
        let limit = limit.map(|limit| edit.graph_mut().intern_constant(limit));
        edit.set_input(id, 0, limit);
    }
}

/// Drops empty lists of directions from a `Scan` without stacked results, because older checkers
/// reject them.
fn lists_of_scan(edit: &mut Editor<'_>, id: NodeId) {
    let graph = edit.graph();
    if graph.node(id).is("Scan") {
        let is_empty = |attr: &Attr| matches!(attr, Attr::Ints(list) if list.is_empty());
        edit.attrs_mut(id).retain(|(_, attr)| !is_empty(attr));
    }
}

/// Drops the axes of a reduction over all axes, because tools for symbolic shape inference support
/// the axes of few operators.
fn axes_of_reduction(edit: &mut Editor<'_>, id: NodeId) {
    let graph = edit.graph();
    let node = graph.node(id);
    let (Some(x), Some(axes)) = (node.input(0), node.input(1)) else { return };
    if !node.op.domain.is_empty() || !node.op.name.starts_with("Reduce") {
        return;
    }
    let rank = graph.ty(x).shape.len();
    let axes = graph.constant(axes).and_then(Tensor::to_i64s);
    let is_all = axes.is_some_and(|axes| rank > 0 && axes.len() == rank);
    if is_all && node.int("noop_with_empty_axes", 0) == 0 {
        edit.drop_inputs(id, 1);
    }
}

/// Adds the kernel size to a convolution, because compilers for devices do not read it from the
/// weights.
fn kernel_of_convolution(edit: &mut Editor<'_>, id: NodeId) {
    let graph = edit.graph();
    let node = graph.node(id);
    if !(node.is("Conv") || node.is("ConvTranspose")) || node.attr("kernel_shape").is_some() {
        return;
    }
    let shape = node.input(1).map_or(&[][..], |weights| &graph.ty(weights).shape);
    let sizes = shape.get(2..).unwrap_or_default().iter().map(Dim::as_known);
    let Some(sizes) = sizes.collect::<Option<Vec<i64>>>() else { return };
    edit.attrs_mut(id).push(("kernel_shape", Attr::Ints(sizes)));
}

/// Drops `allowzero` from a `Reshape` to a constant shape without zeros, because some readers
/// reject the attribute.
fn zeros_of_reshape(edit: &mut Editor<'_>, id: NodeId) {
    let graph = edit.graph();
    let node = graph.node(id);
    if !node.is("Reshape") {
        return;
    }
    let shape = node.input(1).and_then(|shape| graph.constant(shape)).and_then(Tensor::to_i64s);
    if shape.is_some_and(|sizes| !sizes.contains(&0)) {
        edit.attrs_mut(id).retain(|(key, _)| *key != "allowzero");
    }
}

/// Applies all conversions.
pub(super) fn spell(work: &mut Legalizer<'_>) -> Result<()> {
    for id in work.graph().all_nodes() {
        attention::spell(&mut work.edit, id)?;
    }
    for id in work.graph().all_nodes() {
        axes_of_reduction(&mut work.edit, id);
        limit_of_loop(&mut work.edit, id);
        lists_of_scan(&mut work.edit, id);
        kernel_of_convolution(&mut work.edit, id);
        zeros_of_reshape(&mut work.edit, id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use onnx::text::print;
    use provenance::Origins;

    use super::spell;
    use crate::legalize::{Legalizer, Target};
    use crate::testing::graph;

    #[track_caller]
    pub(super) fn is_spelled(text: &str, expected: &str) {
        let mut origins = Origins::default();
        let mut found = graph(text, &mut origins);
        spell(&mut Legalizer::new(&mut found, &mut origins, 23, Target::any())).unwrap();
        onnx::verify(&found, None).unwrap();
        assert_eq!(print(&found), print(&graph(expected, &mut Origins::default())));
    }

    #[test]
    fn convolutions_get_a_kernel_shape() {
        for op in ["Conv", "ConvTranspose"] {
            let body = |attrs| {
                format!(
                    "g (float[1, 2, 8, 8] x, float[2, 2, 1, 1] w) => (float[1, 2, 8, 8] y) {{
                        y = {op} {attrs} (x, w) }}"
                )
            };
            is_spelled(&body(""), &body("<kernel_shape = [1, 1]>"));
        }
    }

    #[test]
    fn only_shapes_with_zeros_keep_allowzero() {
        is_spelled(
            "g (float[6] x) => (float[2, 3] y) { s = Constant <value_ints = [2, 3]> ()
                y = Reshape <allowzero = 1> (x, s) }",
            "g (float[6] x) => (float[2, 3] y) { s = Constant <value_ints = [2, 3]> () y = Reshape (x, s) }",
        );
        for kept in [
            "g (float[0, 2] x) => (float[2, 0] y) { s = Constant <value_ints = [2, 0]> ()
                y = Reshape <allowzero = 1> (x, s) }",
            "g (float[N, 2] x, float[2, N] z) => (float[2, N] y) {
                s = Shape (z) y = Reshape <allowzero = 1> (x, s) }",
        ] {
            is_spelled(kept, kept);
        }
    }

    #[test]
    fn a_reduction_of_all_axes_does_not_list_them() {
        is_spelled(
            "g (float[2, 3] x) => (float y) {
                a = Constant <value_ints = [0, 1]> () y = ReduceMax <keepdims = 0> (x, a) }",
            "g (float[2, 3] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }",
        );
        let one = "g (float[2, 3] x) => (float[2] y) {
            a = Constant <value_ints = [1]> () y = ReduceMax <keepdims = 0> (x, a) }";
        is_spelled(one, one);
        let none = "g (float[2, 3] x) => (float[1, 1] y) {
            a = Constant <value_ints = [0, 1]> ()
            y = ReduceMax <noop_with_empty_axes = 1> (x, a) }";
        is_spelled(none, none);
    }
}
