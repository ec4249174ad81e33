//! `jax2onnx diff`

use std::fs;

use onnx_file::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, ValueInfoProto,
};
use onnx_file::{Model, Placement};
use serde_json::Value;

use crate::shell::{data, folder, output, path, run, trouble};
use crate::{Run, written};

/// Writes `name` after `edit` to a separate file, and returns its path.
fn edited(folder: &tempfile::TempDir, name: &str, edit: impl FnOnce(&mut ModelProto)) -> String {
    let mut model = onnx_file::read_file(&data(name)).unwrap();
    edit(&mut model);
    let out = path(folder, "edited.onnx");
    Model::from(model).save(out.as_ref(), Placement::Inline).unwrap();
    out
}

fn differences(a: &str, b: &str, options: &str) -> String {
    let Run { status, output, errors } = run(&format!("diff {a} {b} {options}"));
    assert_eq!((status, errors.as_str()), (1, ""), "{output}");
    output
}

#[test]
fn identical_models_do_not_differ() {
    let folder = folder();
    for name in ["mlp", "loops"] {
        let model = format!("tests/profiled/{name}.onnx");
        assert_eq!(output(&format!("diff {model} {model}")), "");
        // Neither metadata nor the location of weights counts as a difference.
        let bare = path(&folder, "bare.onnx");
        output(&format!("strip {model} -o {bare}"));
        assert_eq!(output(&format!("diff {model} {bare}")), "");
        let outside = path(&folder, "outside.onnx");
        let proto = onnx_file::read_file(model.as_ref()).unwrap();
        Model::from(proto).save(outside.as_ref(), Placement::External).unwrap();
        assert_eq!(output(&format!("diff {model} {outside}")), "");
    }
    let json: Value = serde_json::from_str(&output(
        "diff --json tests/profiled/mlp.onnx tests/profiled/mlp.onnx",
    ))
    .unwrap();
    assert_eq!(json["same"], true);
}

/// Renumbered nodes and values are not differences.
#[test]
fn numbers_in_names_do_not_count() {
    let folder = folder();
    let out = edited(&folder, "mlp.onnx", |model| {
        model.metadata_props.clear();
        let graph = model.graph.as_mut().unwrap();
        let results: Vec<String> = graph.output.iter().map(|value| value.name.clone()).collect();
        let rename = |name: &mut String| {
            if name.starts_with('/') && !results.contains(name) {
                name.push_str("_77");
            }
        };
        for node in &mut graph.node {
            rename(&mut node.name);
            node.input.iter_mut().chain(&mut node.output).for_each(rename);
        }
        graph.value_info.iter_mut().for_each(|value| rename(&mut value.name));
    });
    assert_eq!(output(&format!("diff tests/profiled/mlp.onnx {out}")), "");
}

#[test]
fn changes_are_reported_by_line_and_by_module() {
    let folder = folder();
    let out = edited(&folder, "mlp.onnx", |model| {
        let graph = model.graph.as_mut().unwrap();
        let at = graph.node.iter().position(|node| node.op_type == "Sigmoid").unwrap();
        graph.node[at].op_type = "Tanh".to_owned();
        let softmax = graph.node.iter_mut().find(|node| node.op_type == "ReduceMax").unwrap();
        softmax.attribute.retain(|attribute| attribute.name != "keepdims");
        let extra = graph.node.iter().position(|node| node.name == "/Div").unwrap();
        let mut neg = graph.node[extra].clone();
        neg.op_type = "Neg".to_owned();
        neg.name = "/extra/Neg".to_owned();
        neg.input.truncate(1);
        neg.output = vec!["/extra/Neg_output_0".to_owned()];
        graph.node.push(neg);
        let kernel =
            graph.initializer.iter_mut().find(|tensor| tensor.name == "last.kernel").unwrap();
        let mut bytes = kernel.raw_data.take().unwrap().to_vec();
        bytes[0] ^= 1;
        kernel.raw_data = Some(bytes.into());
        model.opset_import[0].version += 1;
    });
    insta::assert_snapshot!("by line", differences("tests/profiled/mlp.onnx", &out, ""));
    insta::assert_snapshot!(
        "by module",
        differences("tests/profiled/mlp.onnx", &out, "--by module")
    );
    let json = differences("tests/profiled/mlp.onnx", &out, "--json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["same"], false);
    let changes: Vec<&str> =
        json["nodes"].as_array().unwrap().iter().map(|n| n["change"].as_str().unwrap()).collect();
    assert_eq!(changes.iter().filter(|change| **change == "added").count(), 2);
    let quick = differences("tests/profiled/mlp.onnx", &out, "--no-weights");
    assert!(!quick.contains("last.kernel"), "{quick}");
}

/// A node inside a loop, an output with another producer, a swapped operand.
#[test]
fn small_changes_are_found() {
    let folder = folder();
    let inner = edited(&folder, "loops.onnx", |model| {
        let graph = model.graph.as_mut().unwrap();
        let scan = graph.node.iter_mut().find(|node| node.op_type == "Scan").unwrap();
        let body = scan.attribute.iter_mut().find_map(|attribute| attribute.g.as_mut()).unwrap();
        body.node.iter_mut().find(|node| node.op_type == "Tanh").unwrap().op_type = "Sin".into();
    });
    let text = differences("tests/profiled/loops.onnx", &inner, "");
    assert!(text.contains("- Tanh") && text.contains("+ Sin"), "{text}");
    let swapped = edited(&folder, "mlp.onnx", |model| {
        let graph = model.graph.as_mut().unwrap();
        graph.node.iter_mut().find(|node| node.name == "/Div").unwrap().input.swap(0, 1);
    });
    let text = differences("tests/profiled/mlp.onnx", &swapped, "");
    assert!(text.contains("~ Div  input 0: /Exp_output_0 → /ReduceSum_output_0"), "{text}");
    let elsewhere = edited(&folder, "mlp.onnx", |model| {
        let graph = model.graph.as_mut().unwrap();
        graph.output[0].name = "/Exp_output_0".to_owned();
    });
    let text = differences("tests/profiled/mlp.onnx", &elsewhere, "");
    assert!(text.contains("output 0 computed by: Div → Exp"), "{text}");
}

/// Contents that are too large for memory are compared on disk, regardless of their storage format.
#[test]
fn large_parameters_are_compared_in_their_files() {
    let folder = folder();
    let numbers: Vec<f32> = (0..10_000u16).map(f32::from).collect();
    let save = |name: &str, placement, change: &dyn Fn(&mut TensorProto)| {
        let mut model = onnx_file::read_file(&data("mlp.onnx")).unwrap();
        let mut tensor = TensorProto {
            name: "large".to_owned(),
            dims: vec![100, 100],
            data_type: 1,
            ..TensorProto::default()
        };
        change(&mut tensor);
        model.graph.as_mut().unwrap().initializer.push(tensor);
        let out = path(&folder, name);
        Model::from(model).save(out.as_ref(), placement).unwrap();
        out
    };
    let raw =
        |numbers: &[f32]| -> Vec<u8> { numbers.iter().flat_map(|f| f.to_le_bytes()).collect() };
    let plain = |tensor: &mut TensorProto| tensor.raw_data = Some(raw(&numbers).into());
    let inside = save("inside.onnx", Placement::Inline, &plain);
    let outside = save("outside.onnx", Placement::External, &plain);
    let listed = save("listed.onnx", Placement::Inline, &|t| t.float_data = numbers.clone());
    for (a, b) in [(&inside, &outside), (&outside, &listed), (&listed, &inside)] {
        assert_eq!(output(&format!("diff {a} {b}")), "");
    }
    let other = save("other.onnx", Placement::Inline, &|tensor| {
        let mut bytes = raw(&numbers);
        *bytes.last_mut().unwrap() ^= 1;
        tensor.raw_data = Some(bytes.into());
    });
    for a in [&inside, &outside, &listed] {
        let text = differences(a, &other, "");
        assert!(text.contains("~ large  f32[100,100], different values"), "{text}");
    }
    fs::remove_file(path(&folder, "outside.onnx.data")).unwrap();
    let error = trouble(&format!("diff {inside} {outside}"));
    assert!(error.contains("outside.onnx.data"), "{error}");
    assert_eq!(output(&format!("diff {inside} {outside} --no-weights")), "");
}

#[test]
fn errors_have_their_own_status() {
    let folder = folder();
    trouble("diff tests/profiled/mlp.onnx tests/profiled/none.onnx");
    let cut = path(&folder, "cut.onnx");
    let bytes = fs::read(data("mlp.onnx")).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    trouble(&format!("diff tests/profiled/mlp.onnx {cut}"));
    // Weights outside the model's folder are not opened.
    for (location, message) in [
        ("../secret", "outside the model's folder\n"),
        ("absent.data", "absent.data`: No such file or directory\n"),
    ] {
        let out = edited(&folder, "mlp.onnx", |model| {
            let tensor = &mut model.graph.as_mut().unwrap().initializer[0];
            tensor.raw_data = None;
            tensor.set_data_location(onnx_file::proto::DataLocation::External);
            let entry = StringStringEntryProto { key: "location".into(), value: location.into() };
            tensor.external_data = vec![entry];
        });
        let error = trouble(&format!("diff tests/profiled/mlp.onnx {out}"));
        assert!(error.ends_with(message), "{error}");
    }
}

/// Runtimes match inputs and outputs by name. A new order is reported once, and consumers do not
/// change.
#[test]
fn a_new_order_of_inputs_is_reported_once() {
    let folder = folder();
    let two = |swap: bool| {
        edited(&folder, "mlp.onnx", |model| {
            let graph = model.graph.as_mut().unwrap();
            let mut neg = graph.node[0].clone();
            (neg.op_type, neg.name) = ("Neg".to_owned(), "/Neg".to_owned());
            neg.attribute.clear();
            (neg.input, neg.output) = (vec!["other".to_owned()], vec!["negated".to_owned()]);
            graph.node.push(neg);
            for (list, name) in [(&mut graph.input, "other"), (&mut graph.output, "negated")] {
                let value =
                    onnx_file::proto::ValueInfoProto { name: name.to_owned(), ..list[0].clone() };
                list.insert(usize::from(!swap), value);
            }
        })
    };
    let first = path(&folder, "first.onnx");
    fs::rename(two(false), &first).unwrap();
    let text = differences(&first, &two(true), "");
    let expected = "order of inputs: x, other → other, x\n\
                    order of outputs: output, negated → negated, output\n\n\
                    the model's interface or version changed\n";
    assert_eq!(text, expected);
}

/// If the file is unknown, the function identifies the origin of a node.
#[test]
fn unknown_files_are_null() {
    let folder = folder();
    let mut model = onnx_file::read_file("tests/models/minimal.onnx".as_ref()).unwrap();
    model.graph.as_mut().unwrap().node[0].op_type = "Neg".to_owned();
    let out = path(&folder, "edited.onnx");
    Model::from(model).save(out.as_ref(), Placement::Inline).unwrap();
    let json = differences("tests/models/minimal.onnx", &out, "--json");
    let json: Value = serde_json::from_str(&json).unwrap();
    let node = &json["nodes"][0]["a"];
    assert_eq!(node["file"], Value::Null);
    assert!(node["function"].is_string() && node["line"].is_u64(), "{node}");
}

#[test]
fn a_missing_map_can_be_supplied() {
    let folder = folder();
    let (model, map) = (path(&folder, "m.onnx"), path(&folder, "elsewhere"));
    output(&format!("strip tests/profiled/mlp.onnx -o {model} --map {map}"));
    let Run { status, errors, .. } = run(&format!("diff {model} tests/profiled/mlp.onnx"));
    assert_eq!(status, 0);
    assert!(errors.contains(&format!("that was not found; copy it to {model}.map")), "{errors}");
    fs::rename(&map, format!("{model}.map")).unwrap();
    assert_eq!(output(&format!("diff {model} tests/profiled/mlp.onnx")), "");
}

/// Returns the differences between two graphs in text form.
fn between(one: &str, other: &str) -> Vec<String> {
    let folder = folder();
    let (a, b) = (written(&folder, "a.onnx", one), written(&folder, "b.onnx", other));
    let found = run(&format!("diff {a} {b} --json"));
    assert_eq!(found.status, 1, "{}", found.output);
    let json: Value = serde_json::from_str(&found.output).unwrap();
    let lines = json["model"].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap().to_owned()).collect()
}

#[test]
fn changes_of_the_interface_are_listed() {
    let one = "g (float[B,3] x, float[3] y) => (float[B,3] z) { z = Add (x, y) }";
    assert_eq!(
        between(one, "g (float[B,3] x, float[1] y) => (float[B,3] z) { z = Add (x, y) }"),
        ["input 1: y: f32[3] → y: f32[1]"]
    );
    assert_eq!(
        between(
            one,
            "g (float[B,3] x, float[3] y, int32[2] n) => (float[B,3] z, int32[2] m) {
               z = Add (x, y) m = Neg (n)
             }"
        ),
        ["input 2: none → n: i32[2]", "output 1: none → m: i32[2]", "number of outputs: 1 → 2"]
    );
}

#[test]
fn bodies_are_compared_by_what_they_return() {
    let scan = |results: &str, second: &str| {
        format!(
            "g (float[2] a, float[2] b, float[5,2] x) => (float[2] c, float[2] d, float[5,2] y) {{
               c, d, y = Scan <num_scan_inputs = 1, body = body (float[2] s, float[2] t, float[2] e)
                   => (float[2] u, float[2] v, float[2] w) {{ u = {results} v = Exp (t) w = {second} }}> (a, b, x)
             }}"
        )
    };
    let same = scan("Add (s, e)", "Mul (t, e)");
    let folder = folder();
    let (a, b) = (written(&folder, "a.onnx", &same), written(&folder, "b.onnx", &same));
    assert_eq!(run(&format!("diff {a} {b}")).status, 0);
    for (results, second) in [("Add (t, e)", "Mul (t, e)"), ("Add (s, e)", "Mul (s, e)")] {
        let b = written(&folder, "c.onnx", &scan(results, second));
        let found = run(&format!("diff {a} {b}"));
        assert_eq!(found.status, 1);
        assert!(found.output.contains(" input 0: "), "{}", found.output);
    }
}

/// Writes a model with these nodes (operator, attribute, operands, result) and initializers.
fn made(
    folder: &tempfile::TempDir,
    name: &str,
    nodes: Vec<NodeProto>,
    initializer: Vec<TensorProto>,
) -> String {
    let output = nodes.last().unwrap().output.clone();
    let value = |name: String| ValueInfoProto { name, ..Default::default() };
    let graph = GraphProto {
        node: nodes,
        initializer,
        input: vec![value("x".to_owned())],
        output: output.into_iter().map(value).collect(),
        ..Default::default()
    };
    let opset = OperatorSetIdProto { version: 21, ..Default::default() };
    let proto = ModelProto {
        ir_version: 10,
        opset_import: vec![opset],
        graph: Some(graph),
        ..Default::default()
    };
    let out = path(folder, name);
    Model::from(proto).save(out.as_ref(), Placement::Inline).unwrap();
    out
}

fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op.to_owned(),
        name: format!("/{output}"),
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        ..Default::default()
    }
}

fn floats(name: &str, elements: &[f32]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        data_type: 1,
        dims: vec![i64::try_from(elements.len()).unwrap()],
        float_data: elements.to_vec(),
        ..Default::default()
    }
}

fn json(a: &str, b: &str) -> Value {
    let found = run(&format!("diff {a} {b} --json"));
    assert_eq!(found.errors, "");
    serde_json::from_str(&found.output).unwrap()
}

#[test]
fn constants_of_nodes_are_compared_by_value() {
    let folder = folder();
    let constant = |elements: &[f32]| NodeProto {
        attribute: vec![AttributeProto {
            name: "value".to_owned(),
            t: Some(Box::new(floats("", elements))),
            ..Default::default()
        }],
        ..node("Constant", &[], "c")
    };
    let with = |name, elements: &[f32]| {
        made(&folder, name, vec![constant(elements), node("Add", &["x", "c"], "y")], vec![])
    };
    let many: Vec<f32> = (0_u8..100).map(f32::from).collect();
    let mut others = many.clone();
    others[99] = 0.5;
    let (a, b) = (with("a.onnx", &many), with("b.onnx", &others));
    assert_eq!(json(&a, &a)["same"], true);
    assert_eq!(json(&a, &b)["nodes"][0]["details"], serde_json::json!(["different values"]));
}

#[test]
fn numbered_parameters_are_the_same_if_their_values_are() {
    let folder = folder();
    let with = |file, name: &str, elements: &[f32]| {
        made(&folder, file, vec![node("Add", &["x", name], "y")], vec![floats(name, elements)])
    };
    let a = with("a.onnx", "k0", &[1.0, 2.0]);
    let renamed = with("b.onnx", "k1", &[1.0, 2.0]);
    let found = json(&a, &renamed);
    assert_eq!(found["nodes"], serde_json::json!([]));
    assert_eq!(found["parameters"].as_array().unwrap().len(), 2, "one is gone, one is new");
    for other in [[1.0, 3.0].as_slice(), &[1.0, 2.0, 3.0]] {
        let found = json(&a, &with("c.onnx", "k1", other));
        assert_eq!(found["nodes"][0]["details"][0], "input 1: k0 → k1", "{other:?}");
    }
}

#[test]
fn constants_of_the_program_are_no_parameters() {
    let folder = folder();
    let with = |file, name: &str, elements: &[f32]| {
        made(&folder, file, vec![node("Add", &["x", name], "y")], vec![floats(name, elements)])
    };
    let a = with("a.onnx", "const/1", &[1.0]);
    let found = json(&a, &with("b.onnx", "const/2", &[2.0]));
    assert_eq!(found["parameters"], serde_json::json!([]));
    assert_eq!(found["nodes"][0]["details"][0], "input 1: const/1 → const/2");
    let changed = json(&a, &with("c.onnx", "const/1", &[2.0]));
    assert_eq!(changed["parameters"][0]["change"], "changed");
}

#[test]
fn modules_that_are_gone_are_listed_by_their_ends() {
    let folder = folder();
    let model = |file, count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("blocks.{at}/Neg")).collect();
        let mut before = "x";
        let mut nodes = Vec::new();
        for name in &names {
            nodes.push(node("Neg", &[before], name));
            before = name;
        }
        nodes.push(node("Exp", &[before], "y"));
        made(&folder, file, nodes, vec![])
    };
    let short = model("a.onnx", 0);
    for (count, modules) in [
        (1, "+ blocks.0  1 node"),
        (2, "+ blocks.0, blocks.1  1 node each"),
        (3, "+ blocks.0 … blocks.2  1 node each"),
    ] {
        let found = run(&format!("diff {short} {}", model("b.onnx", count))).output;
        assert!(found.lines().any(|line| line.trim() == modules), "{found}");
    }
}
