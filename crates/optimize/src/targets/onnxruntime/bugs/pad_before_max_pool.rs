//! Adds explicit axes to a `Pad` in front of a `MaxPool`.
//!
//! onnxruntime's `Pad_Fusion` makes the pooling operator pad instead, with a number below all
//! others instead of zero. It does not match a `Pad` with axes. Before opset 18, `Pad` has no axes,
//! so a second `Pad` that repeats the edge zero times separates the two.

use onnx::{Graph, NodeId, ValueId, attrs};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(super) static BUG: Bug =
    Bug { name: "pad_before_max_pool", roots: Roots::Named(&["MaxPool"]), avoid };

fn avoid(work: &mut Legalizer<'_>, pool: NodeId) -> Result<(), Error> {
    let Some(id) = work.graph().node(pool).input(0).and_then(|x| padding(work.graph(), x)) else {
        return Ok(());
    };
    let node = work.graph().node(id).clone();
    let (Some(x), Some(pads)) = (node.input(0), node.input(1)) else { return Ok(()) };
    if work.opset < 18 {
        return keep_apart(work, pool);
    }
    // Lists all axes in order: when onnxruntime moves a transpose over a `Pad`, it permutes the
    // amounts but not the axes.
    let axes: Vec<i64> = (0..work.graph().ty(x).rank() as i64).collect();
    let mut b = work.builder(id);
    let axes = b.i64s(&axes);
    let inputs = [Some(x), Some(pads), node.input(2), Some(axes)];
    let padded = b.op_optional("Pad", &inputs, node.attrs.clone())?;
    Ok(work.substitute(id, &[padded])?)
}

fn keep_apart(work: &mut Legalizer<'_>, pool: NodeId) -> Result<(), Error> {
    let Some(x) = work.graph().node(pool).input(0) else { return Ok(()) };
    let none = vec![0; 2 * work.graph().ty(x).rank()];
    let mut b = work.builder(pool);
    let none = b.i64s(&none);
    let same = b.op("Pad", &[x, none], attrs! { mode: "edge" })?;
    work.set_input(pool, 0, same);
    Ok(())
}

/// Returns the `Pad` with a constant and without axes that a value comes from.
fn padding(graph: &Graph, mut x: ValueId) -> Option<NodeId> {
    loop {
        let id = graph.producer(x)?;
        let node = graph.node(id);
        if node.is("Pad") {
            let is_constant = node.string("mode", "constant") == "constant";
            return (is_constant && node.input(3).is_none()).then_some(id);
        }
        // Nodes that onnxruntime may have removed or moved before the fusion.
        if !(node.is_movement() || node.is("Cast") || node.is("Identity")) {
            return None;
        }
        x = node.input(0)?;
    }
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    fn legalized(body: &str) -> String {
        let text = format!(
            "g (float[1,2,4,4] x) => (float[1,2,4,4] y)
             <int64[8] p = {{0, 0, 1, 0, 0, 0, 1, 2}}> {{ {body} }}"
        );
        testing::legalized_text(&text, Target::default())
    }

    #[test]
    fn the_axes_are_named() {
        let text = legalized("z = Pad (x, p) y = MaxPool <kernel_shape = [3, 3]> (z)");
        assert!(text.contains("[0, 1, 2, 3]"), "{text}");
    }

    #[test]
    fn other_padding_stays() {
        for body in [
            "z = Pad <mode = \"edge\"> (x, p) y = MaxPool <kernel_shape = [3, 3]> (z)",
            "z = Pad (x, p) y = AveragePool <kernel_shape = [3, 3]> (z)",
        ] {
            assert!(!legalized(body).contains("[0, 1, 2, 3]"), "{body}");
        }
    }

    /// Returns the number of operators `Pad`, and `true` if one lists axes.
    fn padded(between: &str, opset: i64) -> (usize, bool) {
        let text = format!(
            "g (float[1,1,4,4] x) => (float[1,1,3,3] y) {{
                n = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () p = Pad (x, n) {between}
                y = MaxPool <kernel_shape = [4, 4]> (q) }}"
        );
        let mut origins = provenance::Origins::default();
        let mut graph = crate::testing::graph(&text, &mut origins);
        let forms = crate::Forms::auto(opset);
        crate::legalize::avoid_bugs(
            &mut graph,
            &mut origins,
            opset,
            crate::Target::default(),
            &forms,
        )
        .unwrap();
        let printed = onnx::text::print(&graph);
        (printed.matches("= Pad").count(), printed.contains("[0, 1, 2, 3]"))
    }

    #[test]
    fn nodes_that_may_be_removed_do_not_separate_the_two() {
        for between in
            ["q = Identity (p)", "q = Transpose <perm = [0, 1, 3, 2]> (p)", "q = Cast <to = 1> (p)"]
        {
            assert_eq!(padded(between, 18), (1, true), "{between}");
        }
        assert_eq!(padded("q = Relu (p)", 18), (1, false));
    }

    #[test]
    fn a_second_padding_separates_them_in_older_opsets() {
        assert_eq!(padded("q = Identity (p)", 17), (2, false));
        assert_eq!(padded("q = Relu (p)", 17), (1, false));
    }
}
