//! `view`: the page as a file. Browser tests cover its behaviour.

use std::fs;

use serde_json::Value;

use crate::shell::{data, folder, output, path, run, trouble};

fn page_data(page: &str) -> Value {
    let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let end = start + page[start..].find("</script>").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

#[test]
fn the_page_holds_the_model_and_its_source() {
    let folder = folder();
    let out = path(&folder, "page.html");
    output(&format!("view tests/profiled/loops.onnx -o {out}"));
    let page = fs::read_to_string(&out).unwrap();
    let found = page_data(&page);
    let nodes = found["nodes"].as_array().unwrap();
    let strings = found["strings"].as_array().unwrap();
    let text = |index: &Value| strings[usize::try_from(index.as_u64().unwrap()).unwrap()].as_str();
    let tanh = nodes.iter().find(|node| text(&node[1]) == Some("Tanh")).unwrap();
    let owner = usize::try_from(tanh[3].as_u64().unwrap()).unwrap();
    assert_eq!(text(&nodes[owner][1]), Some("Scan"), "nodes inside nodes know their owner");
    let files = found["files"].as_array().unwrap();
    let own = files.iter().find(|file| file[1] == "crates/cli/tests/profiled/loops.py").unwrap();
    assert_eq!(own[2].as_str().unwrap(), fs::read_to_string(data("loops.py")).unwrap());
    assert_eq!(found["profile"], Value::Null);
}

#[test]
fn times_add_up() {
    let folder = folder();
    let out = path(&folder, "page.html");
    let profile = "tests/profiled/mlp.profile.json";
    output(&format!("view tests/profiled/mlp.onnx -o {out} --profile {profile}"));
    let found = page_data(&fs::read_to_string(&out).unwrap());
    let json = output(&format!("profile tests/profiled/mlp.onnx {profile} --json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let sum = |list: &Value, at: usize| -> u64 {
        list.as_array().unwrap().iter().map(|entry| entry[at].as_u64().unwrap()).sum()
    };
    let profile = &found["profile"];
    let total = [&json["total_median_ns"], &json["total_ns"]].map(|total| total.as_u64().unwrap());
    assert_eq!(profile["total"], serde_json::json!(total));
    assert_eq!([8, 9].map(|at| sum(&found["nodes"], at)), total);
    assert_eq!([2, 3].map(|at| sum(&profile["lines"], at)), total);
    for flame in profile["flames"].as_array().unwrap() {
        assert_eq!([1, 2].map(|at| sum(flame, at)), total);
    }
    assert_eq!(profile["unattributed"], serde_json::json!([0, 0]));
}

#[test]
fn any_model_has_a_page() {
    let folder = folder();
    let (out, bare) = (path(&folder, "page.html"), path(&folder, "bare.onnx"));
    output(&format!("strip tests/profiled/mlp.onnx -o {bare}"));
    let viewed = run(&format!("view {bare}"));
    assert!(viewed.errors.contains("does not record the lines of Python"), "{}", viewed.errors);
    // The default name is beside the model.
    let found = page_data(&fs::read_to_string(path(&folder, "bare.html")).unwrap());
    assert!(found["files"].as_array().unwrap().is_empty());
    assert_eq!(found["nodes"].as_array().unwrap().len(), 28);
    let error = trouble(&format!("view tests/profiled/loops.py -o {out}"));
    assert!(error.starts_with("error: tests/profiled/loops.py: "), "{error}");
    trouble(&format!("view {bare} -o {out} --profile tests/profiled/loops.py"));
}

#[test]
fn the_page_cannot_overwrite_its_sources() {
    let folder = folder();
    let file = "crates/cli/tests/profiled/loops.py";
    let names = ["m.onnx", "m.onnx.map", "m.onnx.data", "p.json", file, "crates/../m.onnx"];
    let [model, map, weights, profile, source, detour] = names.map(|name| path(&folder, name));
    let mut proto = onnx_file::read_file(&data("loops.onnx")).unwrap();
    let first = proto.graph.as_mut().unwrap().initializer.first_mut().unwrap();
    first.raw_data = None;
    first.set_data_location(onnx_file::proto::DataLocation::External);
    first.external_data = vec![onnx_file::proto::StringStringEntryProto {
        key: "location".to_owned(),
        value: "m.onnx.data".to_owned(),
    }];
    onnx_file::Model::from(proto).save(model.as_ref(), onnx_file::Placement::Inline).unwrap();
    fs::write(&weights, "weights").unwrap();
    fs::copy(data("loops.profile.json"), &profile).unwrap();
    output(&format!("strip {model} -o {model} --map {map}"));
    fs::create_dir_all(folder.path().join("crates/cli/tests/profiled")).unwrap();
    fs::copy(data("loops.py"), &source).unwrap();
    for (out, what) in [
        (&model, "would overwrite the model"),
        (&detour, "would overwrite the model"),
        (&map, "would overwrite its source map"),
        (&weights, "would overwrite its weights"),
        (&profile, "would overwrite the profile"),
        (&source, "would overwrite its source"),
    ] {
        let before = fs::read(out).unwrap();
        let error = trouble(&format!("view {model} -o {out} --profile {profile}"));
        assert!(error.contains(what), "{error}");
        assert_eq!(fs::read(out).unwrap(), before);
    }
}

#[test]
fn parameters_are_described() {
    let folder = folder();
    let out = path(&folder, "page.html");
    output(&format!("view tests/profiled/mlp.onnx -o {out}"));
    let found = page_data(&fs::read_to_string(&out).unwrap());
    let strings = found["strings"].as_array().unwrap();
    let text = |index: &Value| strings[usize::try_from(index.as_u64().unwrap()).unwrap()].as_str();
    let rows = found["parameters"].as_array().unwrap();
    let row = rows.iter().find(|row| text(&row[0]) == Some("first.kernel")).unwrap();
    assert_eq!((text(&row[1]), &row[2], &row[3]), (Some("f32[8,16]"), &128.into(), &512.into()));
    let about = row[4].as_array().unwrap();
    assert_eq!(about[0], 128, "all of them are read");
    let bars: u64 = about[6].as_array().unwrap().iter().map(|bar| bar.as_u64().unwrap()).sum();
    assert_eq!(bars, 128);
    assert!(about[3].as_f64() < about[1].as_f64() && about[1].as_f64() < about[4].as_f64());
}

#[test]
fn missing_weights_are_a_remark() {
    let folder = folder();
    let [model, out] = ["m.onnx", "page.html"].map(|name| path(&folder, name));
    let mut proto = onnx_file::read_file(&data("mlp.onnx")).unwrap();
    for (tensor, location) in
        proto.graph.as_mut().unwrap().initializer.iter_mut().zip(["gone.data", "../secret"])
    {
        tensor.raw_data = None;
        tensor.set_data_location(onnx_file::proto::DataLocation::External);
        tensor.external_data = vec![onnx_file::proto::StringStringEntryProto {
            key: "location".to_owned(),
            value: location.to_owned(),
        }];
    }
    onnx_file::Model::from(proto).save(model.as_ref(), onnx_file::Placement::Inline).unwrap();
    let said = run(&format!("view {model} -o {out}"));
    assert_eq!(said.status, 0);
    assert!(said.errors.contains("shown without statistics: cannot read `"), "{}", said.errors);
    assert!(said.errors.contains("(and 1 more)"), "{}", said.errors);
}

#[test]
fn another_model_is_compared() {
    let folder = folder();
    let [other, out] = ["other.onnx", "page.html"].map(|name| path(&folder, name));
    let mut proto = onnx_file::read_file(&data("mlp.onnx")).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    let node = graph.node.iter_mut().find(|node| node.op_type == "Sigmoid").unwrap();
    node.op_type = "Tanh".to_owned();
    onnx_file::Model::from(proto).save(other.as_ref(), onnx_file::Placement::Inline).unwrap();
    output(&format!("view tests/profiled/mlp.onnx --against {other} -o {out}"));
    let found = page_data(&fs::read_to_string(&out).unwrap());
    let json = run(&format!("diff tests/profiled/mlp.onnx {other} --json")).output;
    let json: Value = serde_json::from_str(&json).unwrap();
    let kinds = |list: &Value, key: &dyn Fn(&Value) -> Value| {
        let mut kinds: Vec<String> =
            list.as_array().unwrap().iter().map(|entry| key(entry).to_string()).collect();
        kinds.sort_unstable();
        kinds
    };
    let against = &found["against"];
    assert_eq!(
        kinds(&against["marks"], &|mark| mark[1].clone()),
        kinds(&json["nodes"], &|node| node["change"].clone()),
        "what `diff` says"
    );
    let rows = found["nodes"].as_array().unwrap();
    assert_eq!(rows.len(), 29, "one node only the other model has");
    let strings = found["strings"].as_array().unwrap();
    let op = |row: &Value| {
        let op = usize::try_from(
            rows[usize::try_from(row.as_u64().unwrap()).unwrap()][1].as_u64().unwrap(),
        );
        strings[op.unwrap()].as_str().unwrap().to_owned()
    };
    let marks = against["marks"].as_array().unwrap();
    let added = marks.iter().find(|mark| mark[1] == "added").unwrap();
    let removed = marks.iter().find(|mark| mark[1] == "removed").unwrap();
    assert_eq!((op(&added[0]), op(&removed[0])), ("Tanh".to_owned(), "Sigmoid".to_owned()));
    assert_eq!(added[0].as_u64().unwrap(), removed[0].as_u64().unwrap() + 1, "side by side");
    trouble(&format!("view tests/profiled/mlp.onnx --against tests/profiled/loops.py -o {out}"));
    let error = trouble(&format!("view tests/profiled/mlp.onnx --against {other} -o {other}"));
    assert!(error.contains("would overwrite the other model"), "{error}");
}

#[test]
fn errors_belong_to_lines() {
    let folder = folder();
    let [errors, out] = ["errors.json", "page.html"].map(|name| path(&folder, name));
    let line = |place: &str| {
        serde_json::json!({
            "place": place, "values": 2, "maximum": 0.5, "mean": 0.1, "signal_to_noise": null,
        })
    };
    let place = "tests/models/nnx/mlp.py:21 in MLP.__call__";
    let mut answer = serde_json::json!({
        "ok": false, "message": "[value-differs] `Mul` differs\n …", "node": "/Mul",
        "by_line": [line(place), line("(unknown line)")], "by_module": [line("(the model itself)")],
    });
    fs::write(&errors, answer.to_string()).unwrap();
    output(&format!("view tests/profiled/mlp.onnx --errors {errors} -o {out}"));
    let found = page_data(&fs::read_to_string(&out).unwrap());
    let lines = found["errors"]["lines"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[0][1]), (1, &21.into()));
    assert_eq!(found["errors"]["modules"][0][0], "");
    answer["by_line"][0] = line("other.py:3 in f");
    fs::write(&errors, answer.to_string()).unwrap();
    let said = run(&format!("view tests/profiled/mlp.onnx --errors {errors} -o {out}"));
    assert!(said.errors.contains("1 line of 1 not found in the model"), "{}", said.errors);
    let deep = "[".repeat(100_000);
    let bad = ["", "{}", "[]", "\u{1b}[2J", "{\"ok\":true,\"message\":1}", &deep];
    for bad in bad.map(str::as_bytes).into_iter().chain([b"\xff\xfe\x00".as_slice()]) {
        fs::write(&errors, bad).unwrap();
        let error = trouble(&format!("view tests/profiled/mlp.onnx --errors {errors} -o {out}"));
        assert!(error.contains("not the output of `jax2onnx verify --json`"), "{error}");
        assert!(error.len() < 400);
    }
}

#[test]
fn links_lead_into_the_page() {
    let model = "tests/profiled/mlp.onnx";
    let page = "--page https://example.org/mlp.html";
    let told = output(&format!("explain {model} /first/Gemm {page}"));
    assert!(told.contains("page     https://example.org/mlp.html#node=/first/Gemm\n"), "{told}");
    let json: Value =
        serde_json::from_str(&output(&format!("explain {model} /first/Gemm --json {page}")))
            .unwrap();
    assert_eq!(json["findings"][0]["link"], "https://example.org/mlp.html#node=/first/Gemm");
    let times = format!("profile {model} tests/profiled/mlp.profile.json");
    let told = output(&format!("{times} {page} --top 1"));
    assert!(
        told.ends_with("\nhttps://example.org/mlp.html#tests/models/nnx/mlp.py:21\n"),
        "{told}"
    );
    let json: Value = serde_json::from_str(&output(&format!("{times} --json {page}"))).unwrap();
    assert_eq!(json["lines"][0]["link"], "https://example.org/mlp.html#tests/models/nnx/mlp.py:21");
    assert!(json["kernels"][0]["link"].as_str().unwrap().contains("#node=/"));
}

#[test]
fn no_absolute_path_is_written_unasked() {
    let folder = folder();
    let out = path(&folder, "page.html");
    let here = std::env::current_dir().unwrap();
    let text = |options: &str| {
        output(&format!("view tests/profiled/loops.onnx -o {out} --source ../.. {options}"));
        fs::read_to_string(&out).unwrap()
    };
    assert!(!text("").contains(here.to_str().unwrap()), "the page is elsewhere");
    assert!(text("--editor idea://open?file={path}&line={line}").contains("idea://open?file="));
    assert!(text("--editor x:{path}").contains("/crates/cli/tests/profiled/loops.py\""));
    let error =
        trouble(&format!("view tests/profiled/loops.onnx -o {out} --editor javascript:{{path}}"));
    assert!(error.contains("is not an editor URL"), "{error}");
}

/// The nodes of a function follow each of its calls. Its operands are computed where it is called.
#[test]
fn functions_are_unfolded_at_their_calls() {
    let folder = folder();
    let text = r#"g (float[2] x) => (float[2] y, float s) {
        h = pkg.test.Wave (x)
        y = pkg.test.Wave (h)
        s = ReduceSum <keepdims = 0> (y)
    }
    <domain: "pkg.test">
    Wave (float[2] a) => (float[2] b) {
        c = Sin (a)
        b = Exp (c)
    }"#;
    let model = crate::written(&folder, "waves.onnx", text);
    run(&format!("view {model}"));
    let found = page_data(&fs::read_to_string(path(&folder, "waves.html")).unwrap());
    assert_eq!(found["title"], "waves.onnx");
    let facts: Vec<&str> =
        found["facts"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(facts[0], "5 nodes");
    assert!(facts.contains(&"in x: f32[2]") && facts.contains(&"out s: f32[]"), "{facts:?}");
    let string = |index: &Value| {
        found["strings"][usize::try_from(index.as_u64().unwrap()).unwrap()]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let rows = found["nodes"].as_array().unwrap().iter().map(|node| {
        let makers = node[4].as_array().unwrap().iter().map(|input| input[0].as_i64().unwrap());
        let results = node[5].as_array().unwrap().len();
        (
            string(&node[1]),
            node[3].as_i64().unwrap(),
            makers.collect::<Vec<_>>(),
            results,
            string(&node[7]),
        )
    });
    let row = |op: &str, owner, maker, attributes: &str| {
        (op.to_owned(), owner, vec![maker], 1, attributes.to_owned())
    };
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [
            row("pkg.test.Wave", -1, -1, ""),
            row("Sin", 0, -1, ""),
            row("Exp", 0, 1, ""),
            row("pkg.test.Wave", -1, 0, ""),
            row("Sin", 3, 0, ""),
            row("Exp", 3, 4, ""),
            row("ReduceSum", -1, 3, "keepdims=0"),
        ]
    );
}
