//! A model that calls a function twice, as exported and as inlined by onnxruntime.

use insta::assert_snapshot;

use crate::{model, output};

#[test]
fn a_function_has_its_own_nodes() {
    assert_snapshot!(output(&["show", &model("shared.onnx")]));
}

#[test]
fn inlined_nodes_are_in_the_module_that_called() {
    assert_snapshot!(output(&["show", &model("shared.optimised.onnx")]));
    assert_snapshot!("by_line", output(&["show", &model("shared.optimised.onnx"), "--by", "line"]));
}

#[test]
fn an_inlined_node_leads_to_the_call() {
    for (name, node) in [
        ("first_call", "_inlfunc_Embed_/Embed/Mul"),
        ("second_call", "_inlfunc_Embed_token_0_/Embed/Mul"),
        ("fused", "fused _inlfunc_Embed_token_0_/Embed/up/Gemm"),
        ("no_such_call", "_inlfunc_Embed_token_7_/Embed/Tanh"),
    ] {
        let log = format!(
            "Non-zero status code returned while running Mul node. Name:'{node}' Status Message: no"
        );
        for file in ["shared.onnx", "shared.optimised.onnx"] {
            let title = format!("{name}_{file}");
            assert_snapshot!(title, output(&["explain", &model(file), &log]));
        }
    }
}

#[test]
fn operators_that_were_nearly_recognised_are_listed() {
    assert_snapshot!(output(&["show", &model("shared.onnx"), "--missed"]));
}

/// Candidates are found by their operators. A known scalar operand and a value times itself always
/// fit.
#[test]
fn a_message_without_a_name_may_be_about_several_nodes() {
    let shared = model("shared.onnx");
    let broadcast = "Attempting to broadcast an axis by a dimension other than 1. 2 by 3";
    let found = output(&["explain", &shared, broadcast]);
    let nodes: Vec<&str> =
        found.lines().filter_map(|line| line.trim().strip_prefix("node     ")).collect();
    assert_eq!(nodes, ["/Add = Add", "/Sub = Sub", "/Mul_1 = Mul", "/Embed/Mul = Mul"]);
    let reshape = "The input tensor cannot be reshaped to the requested shape. Input \
                   shape:{1,4}, requested shape:{3}";
    let found = output(&["explain", &shared, reshape]);
    assert!(found.contains("node     /Reshape = Reshape") && found.contains("the only one"));
    let of_two_axes = reshape.replace("shape:{3}", "shape:{3,5}");
    assert!(!output(&["explain", &shared, &of_two_axes]).contains("/Reshape = Reshape"));
}
