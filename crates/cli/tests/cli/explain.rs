//! `jax2onnx explain`

use insta::assert_snapshot;
use serde_json::Value;

use crate::{model, output, run, run_with, written};

/// onnxruntime's message if the model's loop receives a wrong matrix.
const NESTED: &str = "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running \
    Scan node. Name:'/Scan' Status Message: Non-zero status code returned while running Reshape \
    node. Name:'/Reshape_2' Status Message: \
    /onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:91 \
    onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, \
    onnxruntime::TensorShapeVector&, bool) input_shape_size == requested_shape_size was false. The \
    input tensor cannot be reshaped to the requested shape. Input shape:{1,4}, requested shape:{3}\n";

#[test]
fn an_error_inside_a_loop_leads_to_the_line() {
    assert_snapshot!(output(&["explain", &model("map.onnx"), NESTED]));
}

#[test]
fn a_fused_node_leads_to_all_its_lines() {
    let log = "Non-zero status code returned while running FusedGemm node. Name:'fused \
               /blocks.0/up/Gemm' Status Message: GEMM: Dimension mismatch, W: {4,4} K: 5 N:4";
    assert_snapshot!("fused_optimised", output(&["explain", &model("optimised.onnx"), log]));
    assert_snapshot!("fused_exported", output(&["explain", &model("map.onnx"), log]));
}

#[test]
fn a_name_is_enough() {
    assert_snapshot!("node", output(&["explain", &model("map.onnx"), "/blocks.1/up/Gemm"]));
    assert_snapshot!("value", output(&["explain", &model("map.onnx"), "/Scan_output_1"]));
    assert_snapshot!("input", output(&["explain", &model("map.onnx"), "scale"]));
    assert_snapshot!("gone", output(&["explain", &model("optimised.onnx"), "/blocks.0/Tanh"]));
}

#[test]
fn a_log_may_be_a_file_an_argument_or_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.log");
    let log = format!(
        "starting\n\x1b[1;31m2026-11-15 [E:onnxruntime:, x.cc:1 Run] {NESTED}\x1b[m\nbye\n"
    );
    std::fs::write(&file, &log).unwrap();
    let by_file = output(&["explain", &model("map.onnx"), file.to_str().unwrap()]);
    assert!(by_file.contains("layers.py:31"));
    assert_eq!(output(&["explain", &model("map.onnx"), &log]), by_file);
    for arguments in [vec!["explain", "M"], vec!["explain", "M", "-"]] {
        let path = model("map.onnx");
        let arguments: Vec<_> =
            arguments.iter().map(|a| if *a == "M" { path.as_str() } else { a }).collect();
        let piped = run_with(&arguments, Some(log.as_bytes()), false, usize::MAX);
        assert_eq!(piped.output, by_file);
    }
    let nothing = run(&["explain", &model("map.onnx")]);
    assert_eq!(nothing.status, 2);
    assert!(nothing.errors.contains("nothing to explain"));
}

/// Messages of OpenVINO 2026.4 and TensorRT, with names of this model.
const OTHERS: [(&str, &str, &str); 6] = [
    (
        "Exception from src/plugins/intel_cpu/src/node.cpp:794:\n[CPU] MatMul node with name \
         '/MatMul_output_0' Check 'k_lhs == k_rhs' failed at src/x/matmul.cpp:45:\nMatmul input \
         shapes are incompatible shape A: (1.4) shape B: (9.3)\n\n\n",
        "/MatMul",
        "matmul-mismatch",
    ),
    (
        "-- Scan-23 with a message:\nWhile validating ONNX node '<Node(Scan): /Scan_output_0>': \
         Check 'a' failed at src/frontends/onnx/frontend/src/op/scan.cpp:36:\nArgument shapes are \
         inconsistent.\n",
        "/Scan",
        "shape-mismatch",
    ),
    (
        "-- No conversion rule found for operations: ReduceSum-23\n",
        "/ReduceSum",
        "unknown-operator",
    ),
    (
        "[TRT] [E] ModelImporter.cpp:771: While parsing node number 7 [Reshape -> \
         \"/Reshape_1_output_0\"]:\n",
        "/Reshape_1",
        "",
    ),
    (
        "[E] Error[4]: [graphShapeAnalyzer.cpp::analyzeShapes::1872] Error Code 4: Miscellaneous \
         (IElementWiseLayer /blocks.0/Add: broadcast dimensions must be conformable)",
        "/blocks.0/Add",
        "broadcast-mismatch",
    ),
    (
        "[E] 10: Could not find any implementation for node \
         {ForeignNode[/blocks.1/up/Gemm.../blocks.1/Add]}.",
        "/blocks.1/up/Gemm",
        "no-kernel",
    ),
];

#[test]
fn other_runtimes_are_understood() {
    for (log, name, code) in OTHERS {
        let json = output(&["explain", &model("map.onnx"), log, "--json"]);
        let finding = &serde_json::from_str::<Value>(&json).unwrap()["findings"][0];
        assert_eq!(finding["name"], name, "{log}");
        assert_eq!(finding["code"].as_str().unwrap_or_default(), code, "{log}");
        assert_eq!(finding["sources"][0]["site"]["file"], "layers.py", "{log}");
    }
}

#[test]
fn any_word_that_is_a_name_is_found() {
    let log = "some.tool: warning, cannot place </blocks.0/Tanh>; skipping";
    assert!(output(&["explain", &model("map.onnx"), log]).contains("layers.py:16"));
}

#[test]
fn unknown_names_are_reported() {
    for (name, log) in [
        ("unknown_name", "/blocks.0/Tahn"),
        ("unknown_node", "Node (/blocks.7/Tanh) Op (Tanh) [ShapeInferenceError] why"),
        ("made_up", "running Reshape node. Name:'gemm_input_reshape_token_2' Status Message: x"),
        ("nothing", "all went well"),
    ] {
        let explained = run(&["explain", &model("map.onnx"), log]);
        assert_eq!(explained.status, 1, "{log}");
        assert_snapshot!(name, explained.output);
    }
}

#[test]
fn a_message_about_the_whole_model_is_explained() {
    let log = "Unsupported model IR version: 13, max supported IR version: 10";
    assert_snapshot!(output(&["explain", &model("map.onnx"), log]));
}

#[test]
fn without_provenance_the_node_is_described() {
    assert_snapshot!(output(&["explain", &model("off.onnx"), NESTED]));
}

#[test]
fn a_missing_file_is_not_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("serve");
    let here = folder.path().to_str().unwrap();
    for path in ["nofile.log", "./serve", "no/such/folder/xyzzyxyzzy", inside.to_str().unwrap()] {
        let run = run(&["explain", &model("map.onnx"), path]);
        assert_eq!((run.status, run.output.as_str()), (2, ""), "{path}");
        assert!(run.errors.contains("no such file"), "{path}: {}", run.errors);
    }
    let run = run(&["explain", &model("map.onnx"), here]);
    assert_eq!(run.status, 2);
    assert!(run.errors.contains("directory"), "{}", run.errors);
}

#[test]
fn the_end_of_a_long_log_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.log");
    let log = format!("{}\n", "all is well so far ".repeat(1_000)).repeat(1_000) + NESTED;
    std::fs::write(&file, &log).unwrap();
    let by_file = run(&["explain", &model("map.onnx"), file.to_str().unwrap()]);
    let piped = run_with(&["explain", &model("map.onnx")], Some(log.as_bytes()), false, usize::MAX);
    for run in [by_file, piped] {
        assert!(run.output.contains("layers.py:31"), "{}", run.output);
        assert!(run.errors.contains("only its last 16 MiB"), "{}", run.errors);
    }
}

#[test]
fn windows_logs_are_read() {
    let bytes: Vec<u8> = NESTED.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let run = run_with(&["explain", &model("map.onnx")], Some(&bytes), false, usize::MAX);
    assert_eq!(run.output, output(&["explain", &model("map.onnx"), NESTED]));
}

#[test]
fn only_errors_are_called_errors() {
    let loaded = "2026-11-15 10:00:00 INFO serve: placed /blocks.0/Tanh on the cpu\n";
    let text = output(&["explain", &model("map.onnx"), loaded]);
    assert!(text.starts_with("info: "), "{text}");
    let infos: String =
        (0..20).map(|i| format!("[I:onnxruntime:, x.cc:1 F] node name: /Reshape_{i} \n")).collect();
    let text = output(&["explain", &model("map.onnx"), &(infos + NESTED)]);
    assert!(text.starts_with("error[reshape-mismatch]"), "errors come first: {text}");
}

#[test]
fn a_wrapped_message_means_the_same() {
    for width in [72, 100] {
        let mut wrapped = String::new();
        let mut length = 0;
        for word in NESTED.split_whitespace() {
            let breaks = length > 0 && length + 1 + word.len() > width;
            wrapped.push_str(if breaks {
                "\n"
            } else if length > 0 {
                " "
            } else {
                ""
            });
            length = if breaks { word.len() } else { length + 1 + word.len() };
            wrapped.push_str(word);
        }
        let explained = output(&["explain", &model("map.onnx"), &wrapped]);
        assert_eq!(explained, output(&["explain", &model("map.onnx"), NESTED]));
    }
}

#[test]
fn messages_about_inputs_list_the_models_own() {
    for (log, expected) in [
        ("INVALID_ARGUMENT : Invalid input name: zz", "no input `zz`; its inputs are `x`, `scale`"),
        ("Invalid output name:nope", "no output `nope`; its outputs are `"),
        (
            "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))",
            "an input of type float was given an array of double; the model's inputs of that kind: `x`",
        ),
        (
            "Unexpected input data type. Actual: (tensor(float)), expected: (tensor(int32))",
            "an input of type int32 was given an array of float; this model has no such input",
        ),
    ] {
        let text = output(&["explain", &model("map.onnx"), log]);
        assert!(text.contains("error[wrong-input]") && text.contains(expected), "{text}");
    }
}

#[test]
fn messages_about_another_model_are_doubted() {
    let about = |op: &str| {
        format!(
            "Non-zero status code returned while running {op} node. Name:'/blocks.0/Tanh' Status Message: x"
        )
    };
    let text = output(&["explain", &model("map.onnx"), &about("Gemm")]);
    assert!(text.contains("about the operator Gemm, but this node is Tanh"), "{text}");
    let text = output(&["explain", &model("map.onnx"), &about("Tanh(13)")]);
    assert!(!text.contains("another model"), "{text}");
}

#[test]
fn endless_names_are_cut() {
    let name = "x".repeat(3000);
    let log = format!("running Add node. Name:'{name}' Status Message: why");
    for argument in [&name, &log] {
        let explained = run(&["explain", &model("map.onnx"), argument]);
        assert_eq!(explained.status, 1);
        assert!(explained.output.len() < 400, "{}", explained.output);
    }
}

#[test]
fn a_rejected_map_does_not_call_for_another_export() {
    let folder = tempfile::tempdir().unwrap();
    let beside = folder.path().join("beside.onnx");
    std::fs::copy(model("beside.onnx"), &beside).unwrap();
    std::fs::write(folder.path().join("beside.onnx.map"), "{}").unwrap();
    let explained = run(&["explain", beside.to_str().unwrap(), "/blocks.0/Tanh"]);
    assert!(explained.errors.contains("another export"), "{}", explained.errors);
    assert!(explained.output.contains("does not record where"), "{}", explained.output);
    assert!(!explained.output.contains("sourcemap"), "{}", explained.output);
}

#[test]
fn data_files_that_are_missing_or_too_short_lead_to_parameters() {
    let log = "[ONNXRuntimeError] : 1 : FAIL : External data path validation failed for initializer: \
               blocks.0.up.kernel. Error: tensorprotoutils.cc:461 ValidateExternalDataPathFromDir \
               External data path does not exist: \"model.onnx.data\"";
    assert_snapshot!("missing_data", output(&["explain", &model("map.onnx"), log]));
    let log = "[ONNXRuntimeError] : 1 : FAIL : Deserialize tensor blocks.0.up.kernel \
               failed.tensorprotoutils.cc:1876 GetExtDataFromTensorProto External initializer: \
               blocks.0.up.kernel offset: 64 size to read: 64 given file_length: 100 are out of bounds or \
               can not be read in full.";
    assert_snapshot!("truncated_data", output(&["explain", &model("map.onnx"), log]));
}

/// Returns the names of the nodes in the findings about a message.
fn found(model: &str, log: &str) -> Vec<String> {
    let json = run(&["explain", model, log, "--json"]).output;
    let json: Value = serde_json::from_str(&json).unwrap();
    let findings = json["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn shapes_select_the_nodes_that_may_not_broadcast() {
    let folder = tempfile::tempdir().unwrap();
    let model = written(
        &folder,
        "sums.onnx",
        "sums (float[2,3] a, float[3] b, float[B,3] c, float[2,1] d) =>
           (float[2,3] equal, float[B,3] one, float[S,3] open, float[2,3] single, float[2,3] same, float[B,3] cos) {
           [equal] equal = Add(a, b)
           [one] one = Mul(b, c)
           [open] open = Sub(a, c)
           [single] single = Div(a, d)
           [same] same = Mul(a, a)
           [cos] cos = Cos(c)
         }",
    );
    let log = "Attempting to broadcast an axis by a dimension other than 1. 2 by 5";
    assert_eq!(found(&model, log), ["open"]);
}

#[test]
fn sizes_select_the_nodes_that_may_reshape() {
    let folder = tempfile::tempdir().unwrap();
    let model = written(
        &folder,
        "reshapes.onnx",
        "reshapes (float[2,3] a, float[B,3] b) =>
           (float[3,2] known, float[6] flat, float[1,B,3] open, float[2,3] sum) {
           pair = Constant <value_ints: ints = [3, 2]> ()
           all = Constant <value_ints: ints = [6]> ()
           more = Constant <value_ints: ints = [1, -1, 3]> ()
           [known] known = Reshape(a, pair)
           [flat] flat = Reshape(a, all)
           [open] open = Reshape(b, more)
           [sum] sum = Add(a, a)
         }",
    );
    let log = |to: &str| format!("reshape changes volume. Reshaping (7) to {to}.");
    assert_eq!(found(&model, &log("3,2")), ["known"]);
    assert_eq!(found(&model, &log("3, -1")), ["known"]);
    assert_eq!(found(&model, &log("1,9,3")), ["open"]);
    assert_eq!(found(&model, &log("1,9,4")), [""], "the whole model");
    assert_eq!(found(&model, &log("2,3")), [""]);
    assert_eq!(found(&model, &log("6")), ["flat"]);
    assert_eq!(found(&model, &log("0,2")), ["known"]);
    assert_eq!(found(&model, &log("9,9,9")), [""]);
}

#[test]
fn programs_explain_one_message() {
    let path = model("map.onnx");
    let by_file = cli::explain_file(path.as_ref(), NESTED).unwrap().unwrap();
    assert!(by_file.contains("layers.py:31") && !by_file.ends_with('\n'), "{by_file}");
    let bytes = std::fs::read(&path).unwrap();
    let by_bytes = cli::explain_bytes(&bytes, NESTED).unwrap().unwrap();
    assert!(by_bytes.contains("layers.py:31"), "{by_bytes}");
    assert_eq!(cli::explain_bytes(&bytes, "all is well").unwrap(), None);
    let unknown = cli::explain_bytes(&bytes, "Node:/made/up Output:y [").unwrap().unwrap();
    assert!(unknown.contains("the model has no node or value `/made/up`"), "{unknown}");
    assert!(cli::explain_bytes(b"no model", NESTED).is_err());
}

#[test]
fn wrong_shapes_are_described_in_terms_of_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let text = "g (float[B,4] x, float[B,4] z, int64[B] n) => (float[B,4] y) { y = Add (x, z) }";
    let path = written(&folder, "shapes.onnx", text);
    let wrong = "Got invalid dimensions for input: x for the following indices\n index: 1 Got: 3 \
                 Expected: 4\n Please fix either the inputs/outputs or the model.";
    let found = output(&["explain", &path, wrong]);
    assert!(found.contains("a different shape: axis 1 has size 3 instead of 4"), "{found}");
    let sizes = "Non-zero status code returned while running Add node. Name:'/Add' Status Message: \
                 Attempting to broadcast an axis by a dimension other than 1. 2 by 3";
    let found = output(&["explain", &path, sizes]);
    assert!(found.contains("the inputs give the dimension `B` two sizes: 2 and 3"), "{found}");
    let ty = "Unexpected input data type. Actual: (tensor(float)) , expected: (tensor(int64))";
    let found = output(&["explain", &path, ty]);
    assert!(found.contains("the model's inputs of that kind: `n`"), "{found}");
    let ty = "Unexpected input data type. Actual: (tensor(float)) , expected: (tensor(double))";
    assert!(output(&["explain", &path, ty]).contains("this model has no such input"));
}
