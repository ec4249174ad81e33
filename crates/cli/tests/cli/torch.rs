//! Models of `torch.onnx`, whose metadata is read, too. `tests/torch/export.py` writes them.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::shell::{folder, output, path, run};

const NET: &str = "tests/torch/net.onnx";

#[test]
fn nodes_have_modules_and_lines() {
    assert_snapshot!(output(&format!("show {NET}")));
}

#[test]
fn a_failure_leads_to_the_users_line() {
    assert_snapshot!(output(&format!("explain {NET} node_linear_2")));
    let json = output(&format!("explain {NET} node_linear_2 --json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let source = &json["findings"][0]["sources"][0];
    assert_eq!(source["site"]["line"], 14);
    assert_eq!(source["scope"], "blocks.1/up");
    let files: Vec<&str> =
        source["stack"].as_array().unwrap().iter().map(|f| f["file"].as_str().unwrap()).collect();
    assert!(files[0].ends_with("torch/nn/modules/linear.py"), "{files:?}");
    assert_eq!(files[1..], ["layers.py", "layers.py"]);
}

#[test]
fn time_belongs_to_lines_and_modules() {
    let folder = folder();
    let (profile, page) = (path(&folder, "p.json"), path(&folder, "page.html"));
    let event = |name: &str, op: &str, at: u32, dur: u32| {
        json!({"cat": "Node", "name": format!("{name}_kernel_time"), "ts": at, "dur": dur,
               "tid": 1, "args": {"op_name": op}})
    };
    let events = [
        json!({"cat": "Session", "name": "model_run", "ts": 0, "dur": 100, "tid": 1}),
        event("node_linear", "Gemm", 0, 10),
        event("node_tanh", "Tanh", 10, 5),
        event("node_linear_2", "Gemm", 20, 7),
        event("node_softmax", "Softmax", 30, 3),
    ];
    fs::write(&profile, serde_json::to_string(&events).unwrap()).unwrap();
    let json = output(&format!("profile {NET} {profile} --json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let lines = json["lines"].as_array().unwrap().iter();
    let lines: Vec<(u64, u64)> =
        lines.map(|l| (l["line"].as_u64().unwrap(), l["ns"].as_u64().unwrap())).collect();
    assert_eq!(lines, [(14, 22_000), (26, 3000)]);
    let own = |module: &str| {
        let modules = json["modules"].as_array().unwrap();
        let found = modules.iter().find(|entry| entry["module"] == module).unwrap();
        found["own_ns"].as_u64().unwrap()
    };
    assert_eq!([own("blocks.0/up"), own("blocks.0"), own("blocks.1/up")], [10_000, 5000, 7000]);
    output(&format!("view {NET} -o {page} --profile {profile}"));
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("layers.py") && page.contains("blocks.1/up"));
}

#[test]
fn differences_are_shown_by_line() {
    let folder = folder();
    let other = path(&folder, "other.onnx");
    let mut proto = onnx_file::read_file(NET.as_ref()).unwrap();
    let nodes = &mut proto.graph.as_mut().unwrap().node;
    nodes.iter_mut().filter(|node| node.op_type == "Tanh").for_each(|node| {
        node.op_type = "Sigmoid".to_owned();
    });
    onnx_file::Model::from(proto).save(other.as_ref(), onnx_file::Placement::Inline).unwrap();
    let found = run(&format!("diff {NET} {other}"));
    assert_eq!(found.status, 1);
    assert!(found.output.contains("layers.py:14"), "{}", found.output);
    assert_eq!(run(&format!("diff {NET} {NET}")).status, 0);
}
