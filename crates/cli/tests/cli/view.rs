//! `view`: the page as a file. Its behaviour is tested in a browser.

use std::fs;

use serde_json::Value;

use crate::shell::{data, folder, output, path, trouble};

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
    let own = files.iter().find(|file| file[0] == "crates/cli/tests/profiled/loops.py").unwrap();
    assert_eq!(own[1].as_str().unwrap(), fs::read_to_string(data("loops.py")).unwrap());
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
    let total = json["total_ns"].as_u64().unwrap() / 3;
    for sum in [sum(&found["nodes"], 8), sum(&found["lines"], 2)] {
        assert!(total.abs_diff(sum) < 60, "{total} {sum}: rounded once per node");
    }
    assert_eq!(found["profile"]["unattributed"], 0);
}

#[test]
fn any_model_has_a_page() {
    let folder = folder();
    let (out, bare) = (path(&folder, "page.html"), path(&folder, "bare.onnx"));
    output(&format!("strip tests/profiled/mlp.onnx -o {bare}"));
    output(&format!("view {bare} -o {out}"));
    let found = page_data(&fs::read_to_string(&out).unwrap());
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
    let mut proto = onnx::read_file(&data("loops.onnx")).unwrap();
    let first = proto.graph.as_mut().unwrap().initializer.first_mut().unwrap();
    first.raw_data = None;
    first.set_data_location(onnx::proto::DataLocation::External);
    first.external_data = vec![onnx::proto::StringStringEntryProto {
        key: "location".to_owned(),
        value: "m.onnx.data".to_owned(),
    }];
    onnx::Model::from(proto).save(model.as_ref(), onnx::Placement::Inline).unwrap();
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
