//! A scan of a reversed sequence → a backward scan of the sequence. A reversed stacked result → a
//! result that is stacked backwards.

use onnx::{Attr, Graph, NodeId, ValueId, reversed};

use crate::loops::Loop;
use crate::movement::set_attr;
use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "scan_backwards", run };

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    for id in Loop::all(edit.graph()) {
        let Some(found) = Loop::at(edit.graph(), id) else { continue };
        let node = edit.graph().node(found.id);
        if !node.is("Scan")
            || node.attr("scan_input_axes").is_some()
            || node.attr("scan_output_axes").is_some()
        {
            continue;
        }
        for index in found.carried..node.inputs.len() {
            let reversed = into(edit.graph(), found.id, index);
            let Some((slice, source, (reader, at))) = reversed else { continue };
            if !edit.spend(PASS.name) {
                return Ok(changed);
            }
            edit.set_input(reader, at, Some(source));
            edit.remove_unread(slice, &[found.id]);
            turn(edit, found.id, "scan_input_directions", index - found.carried);
            changed = Changed::Yes;
        }
        for index in found.carried..edit.graph().node(found.id).outputs.len() {
            let Some((slice, with)) = out_of(edit.graph(), found.id, index) else { continue };
            if !edit.spend(PASS.name) {
                return Ok(changed);
            }
            edit.replace(PASS.name, slice, &[with], &[])?;
            turn(edit, found.id, "scan_output_directions", index - found.carried);
            changed = Changed::Yes;
        }
    }
    Ok(changed)
}

/// Returns the `Slice` that reverses a sequence of a scan, its source, and the operand that reads it:
/// that of the scan, or of a transpose in between.
fn into(graph: &Graph, scan: NodeId, index: usize) -> Option<(NodeId, ValueId, (NodeId, usize))> {
    let value = graph.node(scan).input(index)?;
    let id = graph.producer(value)?;
    let node = graph.node(id);
    if node.is("Transpose") && graph.value(value).uses().len() == 1 {
        let first = usize::try_from(*node.ints("perm")?.first()?).ok()?;
        let slice = graph.producer(node.input(0)?)?;
        return Some((slice, reversed(graph, graph.node(slice), first)?, (id, 0)));
    }
    Some((id, reversed(graph, node, 0)?, (scan, index)))
}

/// Returns the `Slice` that reverses a stacked result of a scan, and the value that replaces it.
fn out_of(graph: &Graph, scan: NodeId, index: usize) -> Option<(NodeId, ValueId)> {
    let stacked = graph.node(scan).outputs[index];
    let (id, value) = match only_reader(graph, stacked)? {
        id if graph.node(id).is("Transpose") => {
            let value = graph.node(id).outputs[0];
            (only_reader(graph, value)?, value)
        }
        id => (id, stacked),
    };
    let axis = match graph.producer(value).map(|id| graph.node(id)) {
        Some(node) if node.is("Transpose") => node.ints("perm")?.iter().position(|p| *p == 0)?,
        _ => 0,
    };
    (reversed(graph, graph.node(id), axis)? == value).then_some((id, value))
}

/// Returns the only consumer of `value`, which reads it as its first operand.
fn only_reader(graph: &Graph, value: ValueId) -> Option<NodeId> {
    graph.value(value).only_consumer().filter(|(_, index)| *index == 0).map(|(reader, _)| reader)
}

/// Reverses one of the directions in an attribute.
fn turn(edit: &mut Editor<'_>, scan: NodeId, name: &'static str, index: usize) {
    let mut directions = edit.graph().node(scan).ints(name).unwrap_or_default().to_vec();
    directions.resize(directions.len().max(index + 1), 0);
    directions[index] = 1 - directions[index];
    set_attr(edit.attrs_mut(scan), name, Attr::Ints(directions));
}

#[cfg(test)]
mod tests {
    use super::PASS;
    use crate::testing::passes_to;

    #[test]
    fn reversed_sequences_are_scanned_backwards() {
        let body = "body = body (float[2] a, float[2] b) => (float[2] c, float[2] d) {
            c = Add (a, b) d = Exp (c)
        }";
        passes_to(
            &PASS,
            &format!(
                "g (float[2] s, float[4,2] x) => (float[2] t, float[2,4] y) {{
                    one = Constant <value_ints = [-1]> ()
                    end = Constant <value_ints = [-9]> ()
                    first = Constant <value_ints = [0]> ()
                    second = Constant <value_ints = [1]> ()
                    r = Slice (x, one, end, first, one)
                    t, u = Scan <num_scan_inputs = 1, scan_input_directions = [0], scan_output_directions = [0], {body}> (s, r)
                    v = Transpose <perm = [1, 0]> (u)
                    y = Slice (v, one, end, second, one)
                }}"
            ),
            &format!(
                "g (float[2] s, float[4,2] x) => (float[2] t, float[2,4] y) {{
                    t, u = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], {body}> (s, x)
                    y = Transpose <perm = [1, 0]> (u)
                }}"
            ),
        );
    }

    #[test]
    fn other_directions_are_unchanged() {
        let scan = |attrs: &str, inputs: &str, reversal: &str| {
            format!(
                "g (float[2] s, float[4,2] x, float[4,2] z) => (float[2] t) {{
                    one = Constant <value_ints = [-1]> () end = Constant <value_ints = [-9]> ()
                    first = Constant <value_ints = [0]> () {reversal}
                    t = Scan <num_scan_inputs = 2{attrs}, body = body (float[2] a, float[2] b, float[2] c)
                        => (float[2] e) {{ d = Sub (b, c) e = Add (a, d) }}> (s, {inputs})
                }}"
            )
        };
        for (attrs, [x, z], directions) in
            [("", ["x", "r"], "[0, 1]"), (", scan_input_directions = [0, 1]", ["r", "x"], "[1, 1]")]
        {
            let before = scan(attrs, &format!("{x}, {z}"), "r = Slice (z, one, end, first, one)");
            let inputs = format!("{x}, {z}").replace('r', "z");
            let after = scan(&format!(", scan_input_directions = {directions}"), &inputs, "");
            passes_to(&PASS, &before, &after);
        }
    }

    #[test]
    fn partly_reversed_sequences_are_unchanged() {
        let text = "g (float[2] s, float[4,2] x) => (float[2] t, float[3,2] u) {
            one = Constant <value_ints = [-1]> ()
            end = Constant <value_ints = [0]> ()
            first = Constant <value_ints = [0]> ()
            r = Slice (x, one, end, first, one)
            t, u = Scan <num_scan_inputs = 1, body = body (float[2] a, float[2] b)
                => (float[2] c, float[2] d) { c = Add (a, b) d = Exp (c) }> (s, r)
        }";
        passes_to(&PASS, text, text);
    }

    /// A sum over the rows of two sequences.
    fn sums(attrs: &str, first: &str, second: &str, reversal: &str, results: &str) -> String {
        format!(
            "g (float[2] s, float[4,2] x, float[4,2] z) => (float[2] t{results}) {{
                one = Constant <value_ints = [-1]> () end = Constant <value_ints = [-9]> ()
                axis = Constant <value_ints = [0]> () second = Constant <value_ints = [1]> ()
                {reversal}
                t, u = Scan <num_scan_inputs = 2, {attrs} body = body (float[2] a, float[2] b, float[2] c)
                    => (float[2] d, float[2] e) {{ h = Add (b, c) d = Add (a, h) e = Exp (d) }}
                > (s, {first}, {second})
            }}"
        )
    }

    #[test]
    fn each_sequence_has_its_own_direction() {
        let reversal = "r = Slice (z, one, end, axis, one)";
        for (before, after) in [
            ("", "scan_input_directions = [0, 1],"),
            ("scan_input_directions = [1, 0],", "scan_input_directions = [1, 1],"),
            ("scan_input_directions = [0, 1],", "scan_input_directions = [0, 0],"),
        ] {
            passes_to(&PASS, &sums(before, "x", "r", reversal, ""), &sums(after, "x", "z", "", ""));
        }
        let axes = "scan_input_axes = [0, 0],";
        let text = sums(axes, "x", "r", reversal, "");
        passes_to(&PASS, &text, &text);
    }

    #[test]
    fn results_with_other_readers_keep_their_order() {
        let body = "v = Transpose <perm = [1, 0]> (u) w = Slice (v, one, end, second, one)";
        for results in [", float[2,4] v, float[2,4] w", ", float[4,2] u, float[2,4] w"] {
            let text = sums("", "x", "z", "", results);
            let text = format!("{} {body} }}", text.trim_end().trim_end_matches('}'));
            passes_to(&PASS, &text, &text);
        }
    }
}
