use super::{outcome, ty};
use crate::{Attrs, BlockId, Graph, ValueId, attrs};

/// Adds a block that takes `inputs` and returns values of the types `outputs`.
fn block(graph: &mut Graph, inputs: &[&str], outputs: &[&str]) -> BlockId {
    let block = graph.add_block();
    for text in inputs {
        graph.add_input(block, ty(text));
    }
    let outputs: Vec<ValueId> =
        outputs.iter().map(|text| graph.add_input(Graph::MAIN, ty(text))).collect();
    graph.set_outputs(block, &outputs);
    block
}

/// Adds a loop body that returns its condition unchanged.
fn endless(graph: &mut Graph, inputs: &[&str], outputs: &[&str]) -> BlockId {
    let block = block(graph, inputs, outputs);
    let mut returned = graph.block(block).outputs().to_vec();
    returned[0] = graph.block(block).inputs[1];
    graph.set_outputs(block, &returned);
    block
}

#[test]
fn branches_agree() {
    for (yes, no, expected) in [
        (&["f32[b]", "i32[]"], &["f32[b]", "i32[]"], "f32[b]; i32[]"),
        (
            &["f32[b]", "i32[]"],
            &["f32[3]", "i32[]"],
            "If: result 0 is f32[b] in one branch, but f32[3] in the other",
        ),
    ] {
        let graph = &mut Graph::new("test");
        let (yes, no) = (block(graph, &[], yes), block(graph, &[], no));
        let attrs = attrs! { then_branch: yes, else_branch: no };
        assert_eq!(outcome(graph, "If", &["bool[]"], &attrs, 2), expected);
    }
    let graph = &mut Graph::new("test");
    let (yes, no) = (block(graph, &[], &["f32[b]"]), block(graph, &[], &[]));
    let attrs = attrs! { then_branch: yes, else_branch: no };
    let text = outcome(graph, "If", &["bool[]"], &attrs, 1);
    assert_eq!(text, "If: the branches make 1 and 0 results");
    let text = outcome(graph, "If", &["bool[]"], &attrs! { then_branch: yes, else_branch: yes }, 2);
    assert_eq!(text, "If: the body has 1 results, but 2 were requested");
    let text = outcome(graph, "If", &["bool[]"], &Attrs::new(), 1);
    assert_eq!(text, "If: attribute `then_branch` is missing");
}

#[test]
fn loops_carry_and_stack() {
    let inputs = ["i64[]", "bool[]", "f32[b]"];
    for (operands, outputs, count, expected) in [
        (["7", "bool(1)", "f32[b]"], &["bool[]", "f32[b]", "f32[2]"][..], 2, "f32[b]; f32[7,2]"),
        (["t", "-", "f32[b]"], &["bool[]", "f32[b]", "i32[]"], 2, "f32[b]; i32[t]"),
        (["-", "bool[]", "f32[b]"], &["bool[]", "f32[b]"], 1, "f32[b]"),
        (
            ["-", "-", "f32[b]"],
            &["bool[]", "f32[b]", "f32[2]"],
            2,
            "Loop: the trip count is not given, so stacked results have no size",
        ),
        (
            ["7", "bool[]", "f32[b]"],
            &["bool[]", "f32[b]", "f32[2]"],
            2,
            "Loop: the loop may end early, so stacked results have no size",
        ),
        (
            ["i64[]", "-", "f32[b]"],
            &["bool[]", "f32[b]", "f32[2]"],
            2,
            "Loop: input 0 must be known here",
        ),
        (
            ["7", "-", "f32[3]"],
            &["bool[]", "f32[b]"],
            1,
            "Loop: input 2 gives f32[3], but the body takes f32[b]",
        ),
        (
            ["7", "-", "f32[b]"],
            &["bool[]", "f32[3]"],
            1,
            "Loop: carried value 0 is f32[b], but the body returns f32[3]",
        ),
        (
            ["7", "-", "f32[b]"],
            &["bool[]"],
            1,
            "Loop: 1 values are carried, the body has 3 inputs and 1 outputs",
        ),
        (
            ["7", "f32[]", "f32[b]"],
            &["bool[]", "f32[b]"],
            1,
            "Loop: input 1 is f32[], but must be bool",
        ),
    ] {
        let graph = &mut Graph::new("test");
        let body = endless(graph, &inputs, outputs);
        assert_eq!(outcome(graph, "Loop", &operands, &attrs! { body: body }, count), expected);
    }
}

#[test]
fn errors_number_the_operands_of_a_node() {
    let graph = &mut Graph::new("test");
    let body =
        endless(graph, &["i64[]", "bool[]", "f32[]", "f32[2]"], &["bool[]", "f32[]", "f32[2]"]);
    let text = outcome(graph, "Loop", &["7", "-", "f32[]", "f32[3]"], &attrs! { body: body }, 2);
    assert_eq!(text, "Loop: input 3 gives f32[3], but the body takes f32[2]");
    let body = block(graph, &["f32[]", "f32[2]"], &["f32[]"]);
    let attrs = attrs! { body: body, num_scan_inputs: 1 };
    let text = outcome(graph, "Scan", &["f32[]", "f32[t,3]"], &attrs, 1);
    assert_eq!(text, "Scan: input 1 gives f32[3], but the body takes f32[2]");
    let body = block(graph, &["f32[]", "f32[2]"], &[]);
    let attrs = attrs! { body: body, num_scan_inputs: 2 };
    let text = outcome(graph, "Scan", &["f32[t]", "f32[t,3]"], &attrs, 1);
    assert_eq!(text, "Scan: the body has 0 results, but 1 were requested");
    let body = block(graph, &["f32[]", "f32[2]"], &["f32[]"]);
    let attrs = attrs! { body: body, num_scan_inputs: 2 };
    let text = outcome(graph, "Scan", &["f32[t]", "f32[t,3]"], &attrs, 1);
    assert_eq!(text, "Scan: input 1 gives f32[3], but the body takes f32[2]");
}

#[test]
fn a_scan_has_the_inputs_and_the_states_of_its_body() {
    let graph = &mut Graph::new("test");
    for (operands, inputs, outputs, scanned) in [
        (&["f32[3]"][..], &["f32[]", "f32[]"][..], &["f32[]"][..], 1),
        (&["f32[]", "f32[3]"], &["f32[]", "f32[]"], &[], 1),
        (&["f32[3]"], &["f32[3]"], &["f32[3]"], 0),
    ] {
        let body = block(graph, inputs, outputs);
        let attrs = attrs! { body: body, num_scan_inputs: scanned };
        let (count, results) = (operands.len(), outputs.len().max(1));
        let expected = format!(
            "Scan: {count} inputs, {scanned} of them scanned; the body has {} inputs and {} outputs",
            inputs.len(),
            outputs.len()
        );
        assert_eq!(outcome(graph, "Scan", operands, &attrs, results), expected);
    }
}

#[test]
fn a_computed_condition_may_end_a_loop() {
    let graph = &mut Graph::new("test");
    let body = block(graph, &["i64[]", "bool[]"], &["bool[]", "f32[2]"]);
    let text = outcome(graph, "Loop", &["7", "-"], &attrs! { body: body }, 1);
    assert_eq!(text, "Loop: the loop may end early, so stacked results have no size");
}

#[test]
fn scans_stack_along_axes() {
    let one = vec![1];
    for (operands, body, attrs, count, expected) in [
        (
            &["f32[b]", "f32[t,3]"][..],
            (&["f32[b]", "f32[3]"][..], &["f32[b]", "i32[2]"][..]),
            attrs! { num_scan_inputs: 1 },
            2,
            "f32[b]; i32[t,2]",
        ),
        (
            &["f32[3,t]"],
            (&["f32[3]"], &["i32[2]"]),
            attrs! { num_scan_inputs: 1, scan_input_axes: one.clone(), scan_output_axes: one.clone() },
            1,
            "i32[2,t]",
        ),
        (
            &["f32[3,t]", "f32[4]"],
            (&["f32[t]", "f32[]"], &["i32[2]"]),
            attrs! { num_scan_inputs: 2 },
            1,
            "Scan: scanned axes have sizes 3 and 4",
        ),
        (
            &["f32[3,t]"],
            (&["f32[5]"], &["i32[2]"]),
            attrs! { num_scan_inputs: 1 },
            1,
            "Scan: input 0 gives f32[t], but the body takes f32[5]",
        ),
        (
            &["f32[3]"],
            (&["f32[]"], &["i32[2]"]),
            attrs! { num_scan_inputs: 2 },
            1,
            "Scan: 1 inputs, 2 of them scanned; the body has 1 inputs and 1 outputs",
        ),
        (
            &["f32[3]"],
            (&["f32[]"], &["i32[2]"]),
            attrs! { num_scan_inputs: 1, scan_output_axes: vec![2] },
            1,
            "Scan: axis 2 is out of range for rank 2",
        ),
    ] {
        let graph = &mut Graph::new("test");
        let block = block(graph, body.0, body.1);
        let attrs: Attrs = attrs.into_iter().chain(attrs! { body: block }).collect();
        assert_eq!(outcome(graph, "Scan", operands, &attrs, count), expected);
    }
}
