//! `jax2onnx profile`, on real onnxruntime profiles.

use serde_json::Value;

use crate::shell::{data, folder, output, path, run, trouble};

const MLP: &str = "profile tests/profiled/mlp.onnx tests/profiled/mlp.profile.json";
const LOOPS: &str = "profile tests/profiled/loops.onnx tests/profiled/loops.profile.json";

#[test]
fn time_by_line_module_and_operator() {
    insta::assert_snapshot!(output(MLP));
}

#[test]
fn nodes_inside_nodes_have_their_own_time() {
    insta::assert_snapshot!(output(&format!("{LOOPS} --skip 1")));
}

#[test]
fn source_with_time_in_the_margin() {
    insta::assert_snapshot!(output(&format!("{LOOPS} --annotate loops.py")));
    let error = trouble(&format!("{LOOPS} --annotate other.py"));
    assert!(error.contains("`other.py`; the profile has these files: "), "{error}");
}

#[test]
fn stacks_for_flame_graphs() {
    insta::assert_snapshot!("folded by calls", output(&format!("{LOOPS} --folded")));
    insta::assert_snapshot!("folded by modules", output(&format!("{MLP} --folded=modules")));
    let scope: Value = serde_json::from_str(&output(&format!("{MLP} --speedscope"))).unwrap();
    let json: Value = serde_json::from_str(&output(&format!("{MLP} --json"))).unwrap();
    let frames = scope["shared"]["frames"].as_array().unwrap();
    for profile in scope["profiles"].as_array().unwrap() {
        assert_eq!(profile["endValue"], json["total_ns"]);
        let samples = profile["samples"].as_array().unwrap();
        assert_eq!(samples.len(), profile["weights"].as_array().unwrap().len());
        for frame in samples.iter().flat_map(|sample| sample.as_array().unwrap()) {
            assert!(usize::try_from(frame.as_u64().unwrap()).unwrap() < frames.len());
        }
    }
}

/// Lines, modules, operators and kernels each add up to the total.
#[test]
fn sums_are_right() {
    for line in [MLP, LOOPS, &MLP.replace("mlp.onnx", "mlp.optimised.onnx")] {
        let json: Value = serde_json::from_str(&output(&format!("{line} --json"))).unwrap();
        let sum = |list: &str, key: &str| -> u64 {
            json[list].as_array().unwrap().iter().map(|entry| entry[key].as_u64().unwrap()).sum()
        };
        for kind in ["", "median_"] {
            let number = |key: &str| json[format!("{key}_{kind}ns")].as_u64().unwrap();
            let key = format!("{kind}ns");
            let total = number("total");
            assert_eq!(sum("lines", &key) + number("unattributed"), total, "{line}");
            assert_eq!(sum("modules", &format!("own_{kind}ns")), total);
            assert_eq!(sum("ops", &key), total);
            assert_eq!(sum("kernels", &key), total);
        }
        let total = json["total_ns"].as_u64();
        assert!(total.unwrap() <= json["wall_ns"].as_u64().unwrap());
    }
}

/// The runtime fused a product into one of its own operators, whose name leads back to the product.
#[test]
fn fused_nodes_are_found() {
    let json: Value = serde_json::from_str(&output(&format!("{MLP} --json"))).unwrap();
    let kernels = json["kernels"].as_array().unwrap();
    let fused = kernels.iter().find(|kernel| kernel["op"] == "QuickGelu").unwrap();
    assert_eq!(fused["name"], "/Mul/QuickGeluFusion/");
    assert_eq!(fused["node"], "/Mul");
    assert_eq!(fused["sites"], serde_json::json!(["tests/models/nnx/mlp.py:21"]));
    assert!(kernels.iter().all(|kernel| !kernel["sites"].as_array().unwrap().is_empty()));
}

#[test]
fn profiles_of_other_models_are_recognised() {
    let error = trouble("profile tests/profiled/mlp.onnx tests/profiled/mlp.onnx");
    assert!(error.contains("not an onnxruntime profile"), "{error}");
    let said = run("profile tests/profiled/loops.onnx tests/profiled/mlp.profile.json");
    assert!(said.errors.contains("is this the profile of another model?"), "{}", said.errors);
    let folder = folder();
    let own = path(&folder, "p.json");
    let text = std::fs::read_to_string(data("mlp.profile.json")).unwrap();
    std::fs::write(&own, text.replace("\"name\":\"/", "\"name\":\"?")).unwrap();
    let error = trouble(&format!("profile tests/profiled/mlp.onnx {own}"));
    assert!(error.contains("none of its nodes are in the model"), "{error}");
}

#[test]
fn hostile_profiles_are_errors() {
    let folder = folder();
    let own = path(&folder, "p.json");
    let text = std::fs::read_to_string(data("mlp.profile.json")).unwrap();
    let deep = "[".repeat(100_000);
    for bad in ["", "{}", "[]", "[1]", "[{\"name\":7}]", "\u{1b}[2J", &deep, &text[..5000]] {
        std::fs::write(&own, bad).unwrap();
        let error = trouble(&format!("profile tests/profiled/mlp.onnx {own}"));
        assert!(error.starts_with("error: ") && error.len() < 400, "{error}");
    }
    std::fs::write(&own, [0xff, 0xfe, b'[']).unwrap();
    trouble(&format!("profile tests/profiled/mlp.onnx {own}"));
    trouble("profile tests/profiled/mlp.onnx tests/profiled/none.json");
    trouble(&format!("{MLP} --skip 3"));
}

/// Kernels without a line are summed up, and so are rows beyond those that are shown.
#[test]
fn what_is_not_shown_is_summed_up() {
    let folder = folder();
    let own = path(&folder, "p.json");
    let text = std::fs::read_to_string(data("mlp.profile.json")).unwrap();
    let names: Vec<&str> = text
        .split("\"name\":\"")
        .filter_map(|rest| rest.split_once("_kernel_time"))
        .map(|(name, _)| name)
        .collect();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let shown = |count: usize| {
        let mut text = text.clone();
        for (number, name) in distinct.iter().take(count).enumerate() {
            let (from, to) = (format!("\"{name}_kernel_time"), format!("\"q{number}_kernel_time"));
            text = text.replace(&from, &to);
        }
        std::fs::write(&own, text).unwrap();
        run(&format!("profile tests/profiled/mlp.onnx {own} --top 1")).output
    };
    let all = shown(0);
    assert!(!all.contains("(unknown line)"), "{all}");
    assert!(all.contains(" more line") && all.contains(" more operator"), "{all}");
    let three = shown(3);
    assert!(three.contains("(unknown line)") && !three.contains("and "), "{three}");
    assert!(["q0", "q1", "q2"].iter().all(|name| three.contains(name)), "{three}");
    assert!(shown(4).contains(" and 1 more"), "{}", shown(4));
}
