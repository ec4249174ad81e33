//! Converts models to opsets that are older than their operators.
//!
//! All earlier stages use the current form of operators. Operators that an opset lacks are replaced
//! during legalisation (`equivalents/`), because their replacements must be legalised, too. Operands that
//! used to be attributes are converted at the very end, when no pass examines them any more.

mod before_13;
mod spellings;

use onnx::operators::{Axes, Operator};
use onnx::schema;
use onnx::{Graph, Node, NodeId, Op, Use};
use rustc_hash::FxHashSet;

use super::equivalents::{Lack, float_order};
use super::{Error, Legalizer};
use crate::Roots;

/// Operators that have another form in older opsets.
struct Change {
    ops: Roots,
    /// The first opset with the current form.
    since: i64,
    /// Converts a node to the older form, unless it is valid in both.
    spell: fn(&mut Legalizer<'_>, NodeId) -> Result<(), Lack>,
}

/// All changes, newest first: an older form is converted from the one that followed it.
static CHANGES: &[Change] = &[
    Change { ops: Roots::Named(&["DFT"]), since: 20, spell: spellings::axis_of_dft },
    Change { ops: Roots::Named(&["Pad"]), since: 18, spell: spellings::all_axes },
    Change { ops: Roots::With(takes_axes), since: 18, spell: spellings::axes_attribute },
    Change { ops: Roots::Named(&["Split"]), since: 18, spell: spellings::equal_parts },
    Change { ops: Roots::Named(&["Shape"]), since: 15, spell: spellings::slice_of_shape },
    Change { ops: Roots::Named(&["Reshape"]), since: 14, spell: spellings::zeros_that_copy },
    Change { ops: Roots::Named(TAKE_AXES_SINCE_13), since: 13, spell: spellings::axes_attribute },
    Change { ops: Roots::Named(&["Split"]), since: 13, spell: before_13::split_attribute },
    Change { ops: Roots::Named(FLATTEN), since: 13, spell: before_13::last_axis },
    Change { ops: Roots::Named(&["Resize"]), since: 13, spell: before_13::all_operands },
    Change { ops: Roots::Named(&["Clip"]), since: 11, spell: before_13::max_and_min },
    Change { ops: Roots::Named(&["Gemm"]), since: 11, spell: before_13::zero_bias },
    Change { ops: Roots::Named(&["Pad"]), since: 11, spell: before_13::pads_attribute },
    Change { ops: Roots::Named(&["TopK"]), since: 11, spell: before_13::largest },
    Change { ops: Roots::With(has_axis), since: 11, spell: before_13::positive_axis },
    Change { ops: Roots::Named(&["Slice"]), since: 10, spell: before_13::bounds_attributes },
    Change { ops: Roots::Named(&["TopK"]), since: 10, spell: before_13::count_attribute },
];

/// Operators whose axes became an operand in opset 13.
const TAKE_AXES_SINCE_13: &[&str] = &["ReduceSum", "Squeeze", "Unsqueeze"];

/// Returns `true` for reductions whose axes became an operand in opset 18.
fn takes_axes(op: &Operator) -> bool {
    op.axes == Axes::Reduce && !TAKE_AXES_SINCE_13.contains(&op.name)
}

/// Operators that flattened all axes from the given one on before opset 13.
const FLATTEN: &[&str] = &["Hardmax", "LogSoftmax", "Softmax"];

/// Returns `true` for operators whose axes had to be positive before opset 11.
fn has_axis(op: &Operator) -> bool {
    let is_changed = op.versions.iter().any(|schema| schema.since == 11);
    let mut old = op.versions.iter().filter(|schema| schema.since < 11);
    is_changed && old.any(|schema| schema.attr("axis").or(schema.attr("axes")).is_some())
}

/// Returns the nodes that order floats by their bits, if `opset` lacks `BitCast`. They have a form that does not
/// need the bits.
fn by_bits(graph: &Graph, opset: i64) -> Vec<NodeId> {
    if schema::find(&Op::onnx("BitCast"), opset).is_some() {
        return Vec::new();
    }
    let nodes = graph.all_nodes().into_iter();
    nodes.filter(|id| float_order::orders_floats(graph, graph.node(*id))).collect()
}

/// Returns `true` if the operator of `node` has another form at `opset`.
pub(super) fn is_respelled(node: &Node, opset: i64) -> bool {
    CHANGES.iter().any(|row| opset < row.since && row.ops.has(node))
}

/// Returns `true` if all operators have their current form at `opset`.
pub(super) fn is_present(opset: i64) -> bool {
    CHANGES.iter().all(|row| row.since <= opset)
}

/// Returns the nodes that become unused when [`simplify`] converts a graph to `opset`.
pub(super) fn dispensable(graph: &Graph, opset: i64) -> FxHashSet<NodeId> {
    let simpler: FxHashSet<_> = by_bits(graph, opset).into_iter().collect();
    let mut found = FxHashSet::default();
    if simpler.is_empty() {
        return found;
    }
    for id in graph.all_nodes().into_iter().rev() {
        let uses = graph.node(id).outputs.iter().flat_map(|value| graph.value(*value).uses());
        let mut uses = uses.peekable();
        let is_dropped = |by: Use| match by {
            Use::Operand(node, index) => {
                found.contains(&node) || index == 0 && simpler.contains(&node)
            }
            Use::Output(..) => false,
        };
        // Nothing removes a node here that was unused before.
        if !simpler.contains(&id) && uses.peek().is_some() && uses.all(is_dropped) {
            found.insert(id);
        }
    }
    found
}

/// Orders floats without their bits if the opset lacks `BitCast`. Runs before each `BitCast` is replaced.
pub(super) fn simplify(work: &mut Legalizer<'_>) -> Result<(), Error> {
    let form = float_order::top_k(work.target.has_double(work.opset));
    for id in by_bits(work.graph(), work.opset) {
        if work.graph().get(id).is_some() {
            work.try_replace(id, form)?;
        }
    }
    Ok(())
}

/// Converts all nodes to the forms of the opset.
pub(super) fn spell(work: &mut Legalizer<'_>) -> Result<(), Error> {
    let opset = work.opset;
    for change in CHANGES.iter().filter(|row| opset < row.since) {
        for id in work.graph().nodes_where(|node| change.ops.has(node)) {
            let Some(node) = work.graph().get(id) else { continue };
            let (op, origin) = (node.op.name.to_owned(), Some(node.origin));
            match (change.spell)(work, id) {
                Ok(()) => {}
                Err(Lack::Graph(error)) => return Err(error.into()),
                Err(Lack::Because(reason)) => {
                    let (needs, reason) = (change.since, Some(reason.to_owned()));
                    let error =
                        onnx::Error::OpsetTooOld { op, needs, given: opset, reason, origin };
                    return Err(error.into());
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::CHANGES;
    use crate::Target;
    use crate::legalize::{has_present_forms, legalize, required_opset, spell};
    use crate::testing::graph;
    use onnx::Op;
    use onnx::schema::{OLDEST, find, versions};
    use provenance::Origins;

    #[test]
    fn the_table_agrees_with_the_schemas() {
        let changes =
            CHANGES.iter().flat_map(|row| row.ops.names().into_iter().map(|op| (op, row.since)));
        for (op, since) in changes {
            let new = find(&Op::onnx(op), since).map(|s| s.since);
            assert_eq!(new, Some(since), "{op}");
            let is_old = versions(&Op::onnx(op)).iter().any(|s| s.since < since);
            assert!(is_old && since > OLDEST, "{op}");
        }
    }

    /// Returns the text of a model after its conversion to an opset.
    fn converted(text: &str, opset: i64) -> String {
        let mut origins = Origins::default();
        let mut graph = graph(text, &mut origins);
        legalize(&mut graph, &mut origins, opset, Target::any()).unwrap();
        spell(&mut graph, &mut origins, opset).unwrap();
        onnx::verify(&graph, Some(opset)).unwrap();
        onnx::text::print(&graph)
    }

    #[track_caller]
    fn has(text: &str, opset: i64, parts: &[&str]) {
        let found = converted(text, opset);
        assert!(parts.iter().all(|part| found.contains(part)), "{found}");
    }

    #[track_caller]
    fn lacks(text: &str, opset: i64, parts: &[&str]) {
        let found = converted(text, opset);
        assert!(!parts.iter().any(|part| found.contains(part)), "{found}");
    }

    #[test]
    fn a_softmax_before_opset_13_is_over_the_last_axis() {
        let softmax = |axis| {
            format!("g (float[2,3,4] x) => (float[2,3,4] y) {{ y = Softmax <axis = {axis}> (x) }}")
        };
        has(&softmax("1"), 12, &["Transpose <perm: ints = [0, 2, 1]>", "Softmax <axis: int = 2>"]);
        for last in ["2", "-1"] {
            has(&softmax(last), 12, &["Softmax <axis: int = 2>"]);
            lacks(&softmax(last), 12, &["Transpose"]);
        }
    }

    #[test]
    fn operands_that_may_be_omitted_later_are_present() {
        let resize = "g (float[1,1,2,2] x) => (float[1,1,4,4] y) {
            s = Constant <value_ints = [1, 1, 4, 4]> () y = Resize <mode = \"nearest\"> (x, , , s) }";
        has(resize, 12, &["floats = []"]);
        let gemm = "g (float[2,3] x, float[3,4] w) => (float[2,4] y) { y = Gemm (x, w) }";
        lacks(gemm, 10, &["Gemm (x, w)"]);
        has(gemm, 11, &["Gemm (x, w)"]);
    }

    #[test]
    fn the_smallest_numbers_before_opset_11_are_the_largest_negative_ones() {
        let sorted = |attrs| {
            format!(
                "g (float[8] x) => (float[3] y, int64[3] i) {{
                k = Constant <value_ints = [3]> () y, i = TopK {attrs} (x, k) }}"
            )
        };
        assert_eq!(converted(&sorted("<largest = 0>"), 10).matches("Neg").count(), 2);
        lacks(&sorted("<largest = 1, sorted = 1>"), 10, &["Neg", "largest", "sorted"]);
        has(&sorted(""), 9, &["k: int = 3"]);
    }

    #[test]
    fn axes_before_opset_11_are_counted_from_the_front() {
        let concat = |axis| {
            format!(
                "g (float[2,3] x) => (float[{}] y) {{ y = Concat <axis = {axis}> (x, x) }}",
                if axis == 0 { "4,3" } else { "2,6" }
            )
        };
        has(&concat(-1), 10, &["Concat <axis: int = 1>"]);
        has(&concat(0), 10, &["Concat <axis: int = 0>"]);
        has(&concat(-1), 11, &["Concat <axis: int = -1>"]);
        let unsqueeze = "g (float[2,3] x) => (float[2,3,1] y) {
            a = Constant <value_ints = [-1]> () y = Unsqueeze (x, a) }";
        has(unsqueeze, 10, &["Unsqueeze <axes: ints = [2]>"]);
        // The bounds of a slice still count from the end.
        let slice = "g (float[2,3] x) => (float[2,2] y) {
            s = Constant <value_ints = [-2]> () e = Constant <value_ints = [9]> () a = Constant <value_ints = [-1]> ()
            y = Slice (x, s, e, a) }";
        has(slice, 9, &["axes: ints = [1]", "starts: ints = [-2]"]);
    }

    #[test]
    fn operands_that_list_axes_become_attributes() {
        let reduce = |results: &str, body: &str| {
            format!("g (float[2,1,3] x) => (float{results} y) {{
                none = Constant <value = int64[0] {{}}> () one = Constant <value_ints = [1]> () {body} }}")
        };
        has(
            &reduce("[2,1,3]", "y = ReduceSum <noop_with_empty_axes = 1> (x)"),
            12,
            &["Identity (x)"],
        );
        has(
            &reduce("[2,1,3]", "y = ReduceSum <noop_with_empty_axes = 1> (x, none)"),
            12,
            &["Identity (x)"],
        );
        has(&reduce("[1,1,1]", "y = ReduceSum (x, none)"), 12, &["ReduceSum (x)"]);
        has(&reduce("[1,1,1]", "y = ReduceSum (x)"), 12, &["ReduceSum (x)"]);
        has(
            &reduce("[2,1,3]", "y = ReduceSum <noop_with_empty_axes = 1> (x, one)"),
            12,
            &["ReduceSum <axes: ints = [1]> (x)"],
        );
        has(&reduce("[2,3]", "y = Squeeze (x)"), 12, &["Squeeze (x)"]);
        has(&reduce("[2,1,3]", "y = Squeeze (x, none)"), 12, &["Identity (x)"]);
        has(&reduce("[2,3]", "y = Squeeze (x, one)"), 12, &["Squeeze <axes: ints = [1]> (x)"]);
    }

    #[test]
    fn zeros_in_shapes_before_opset_14_copy_sizes() {
        let reshape = |from: &str, to: &str| {
            format!(
                "g (float[{from}] x) => (float[{to}] y) {{
                s = Constant <value_ints = [{to}]> () y = Reshape <allowzero = 1> (x, s) }}"
            )
        };
        has(&reshape("0,3", "0,5"), 13, &["Reshape (x, "]);
        has(&reshape("3,0", "5,0"), 13, &["Reshape (x, "]);
        has(&reshape("3,0", "0,5"), 13, &["ConstantOfShape"]);
        has(&reshape("3,0", "0,5"), 14, &["allowzero: int = 1"]);
    }

    #[test]
    fn padding_before_opset_18_is_that_of_all_axes() {
        let pad = "g (float[2,3] x) => (float[2,6] y) {
            p = Constant <value_ints = [1, 2]> () a = Constant <value_ints = [-1]> () y = Pad (x, p, , a) }";
        has(pad, 17, &["[0, 1, 0, 2]"]);
        lacks(pad, 17, &["[1, 2]", "[-1]"]);
        has(pad, 18, &["[1, 2]"]);
    }

    #[test]
    fn the_axis_of_a_transform_before_opset_20_is_an_attribute() {
        let dft = |operands| {
            format!(
                "g (float[1,8,4,2] x) => (float[1,8,4,2] y) {{
                a = Constant <value = int64 {{1}}> () y = DFT ({operands}) }}"
            )
        };
        has(&dft("x, , a"), 19, &["DFT <axis: int = 1> (x)"]);
        has(&dft("x"), 19, &["DFT <axis: int = 2> (x)"]);
    }

    #[test]
    fn operators_have_their_present_form_from_their_newest_change_on() {
        let at = |text: &str, opset| {
            has_present_forms(&graph(text, &mut Origins::default()), opset, Target::default())
        };
        let plain = "g (float[2] x) => (float[2] y) { y = Sin (x) }";
        assert!(at(plain, 20) && at(plain, 23) && !at(plain, 19));
        let norm = "g (float[2,4] x, float[4] s) => (float[2,4] y) { y = RMSNormalization (x, s) }";
        assert!(at(norm, 23) && !at(norm, 22));
    }

    #[test]
    fn bits_that_only_order_floats_need_no_new_opset() {
        let required = |results: &str, body: &str| {
            let text = format!("g (float[4] x) => (int64[4] i{results}) {{
                zero = Constant <value = int32 {{0}}> () most = Constant <value = int32 {{2147483647}}> ()
                size = Constant <value_ints = [4]> ()
                b = BitCast <to = 6> (x) n = Less (b, zero) f = BitwiseXor (b, most) key = Where (n, f, b)
                v, i = TopK (key, size) {body} }}");
            required_opset(&graph(&text, &mut Origins::default()), Target::default()).unwrap()
        };
        assert_eq!(required("", ""), 23);
        for (results, body) in [
            // The bits, the keys or the sorted keys are visible.
            (", int32[4] key", ""),
            (", int32[4] v", ""),
            (", int32[4] r", "r = Abs (key)"),
            (", int32[4] r", "r = Abs (b)"),
            // Other bits are needed, or not used at all.
            (", int32[4] c", "c = BitCast <to = 6> (x)"),
            ("", "c = BitCast <to = 6> (x)"),
        ] {
            assert_eq!(required(results, body), 26, "{results} {body}");
        }
    }

    #[test]
    fn types_that_a_target_lacks_are_named_before_their_operators() {
        let fails = |opset| {
            let mut origins = Origins::default();
            let text = "g (float8e4m3fn[2] x) => (float8e4m3fn[2] y) { y = Identity (x) }";
            let mut graph = graph(text, &mut origins);
            legalize(&mut graph, &mut origins, opset, Target::default()).unwrap_err().to_string()
        };
        assert!(fails(12).ends_with("it has no such type"), "{}", fails(12));
        assert!(!fails(13).ends_with("it has no such type"), "{}", fails(13));
    }
}
