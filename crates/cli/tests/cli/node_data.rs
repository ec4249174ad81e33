//! `node-data`: colours of nodes for Model Explorer.

use serde_json::Value;

use crate::shell::{output, run};

const MLP: &str = "tests/profiled/mlp.onnx";

fn data(line: &str) -> Value {
    serde_json::from_str(&output(&format!("node-data {line}"))).unwrap()
}

#[test]
fn nodes_are_coloured_by_line_module_and_rule() {
    let lines = data(MLP);
    let results = &lines["jax_model"]["results"];
    let first = &results["/first/Gemm"];
    assert_eq!(first["value"], "tests/models/nnx/mlp.py:20");
    assert_eq!(first["bgColor"], results["/Max"]["bgColor"], "both are on one line");
    assert_ne!(first["bgColor"], results["/last/Gemm"]["bgColor"]);
    let modules = data(&format!("{MLP} --by module"));
    let results = &modules["jax_model"]["results"];
    assert_eq!(results["/first/Gemm"]["value"], "first");
    assert_eq!(results["/Max"], Value::Null, "the model itself has no colour");
    assert!(data(&format!("{MLP} --by rule"))["jax_model"]["results"]["/Max"]["value"].is_string());
}

#[test]
fn nodes_have_times() {
    let profile = "tests/profiled/mlp.profile.json";
    let times = data(&format!("{MLP} --by time --profile {profile}"));
    let graph = &times["jax_model"];
    assert!(graph["gradient"].as_array().is_some_and(|stops| stops.len() == 2));
    let values = graph["results"].as_object().unwrap().values();
    let sum: f64 = values.map(|value| value["value"].as_f64().unwrap()).sum();
    assert!((sum - 75.0).abs() < 1e-9, "`profile` shows the same total: {sum}");
    assert_eq!(run(&format!("node-data {MLP} --by time")).status, 2);
}

#[test]
fn graphs_inside_nodes_and_functions_have_names_of_their_own() {
    let loops = data("tests/profiled/loops.onnx");
    let names: Vec<&String> = loops.as_object().unwrap().keys().collect();
    assert_eq!(names, ["/Loop/body", "/Scan/body", "jax_model"]);
    let results = &loops["jax_model"]["results"];
    assert!(results["/If/else_branch//Exp"].is_object(), "branches are in the graph around them");
    let shared = data("tests/models/shared.onnx");
    let names: Vec<&String> = shared.as_object().unwrap().keys().collect();
    assert!(names.iter().any(|name| name.starts_with("[function]")), "{names:?}");
}

#[test]
fn a_model_without_lines_has_none() {
    let found = run("node-data tests/models/off.onnx");
    assert_eq!(found.status, 1);
    assert!(found.errors.contains("no node has a line"), "{}", found.errors);
}
