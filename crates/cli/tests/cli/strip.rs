//! `strip`: provenance is removed, everything else is preserved.

use std::fs;

use crate::Run;
use crate::shell::{data, folder, output, path, run, trouble};

const KEY: &[u8] = b"pkg.jax2onnx.";

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

#[test]
fn nothing_of_the_program_is_left() {
    let folder = folder();
    let out = path(&folder, "out.onnx");
    output(&format!("strip tests/profiled/loops.onnx -o {out}"));
    let (old, new) = (fs::read(data("loops.onnx")).unwrap(), fs::read(&out).unwrap());
    assert!(contains(&old, KEY) && contains(&old, b"loops:15"));
    assert!(!contains(&new, KEY) && !contains(&new, b"loops:15"));
    // The result decodes to the same model without the metadata.
    let mut model = onnx_file::read(old).unwrap();
    model.metadata_props.clear();
    fn clear(graph: &mut onnx_file::proto::GraphProto) {
        for node in &mut graph.node {
            node.metadata_props.clear();
            for attribute in &mut node.attribute {
                attribute.g.iter_mut().for_each(|graph| clear(graph));
            }
        }
    }
    clear(model.graph.as_mut().unwrap());
    assert_eq!(onnx_file::read(new.clone()).unwrap(), model);
    assert_eq!(onnx_file::Model::from(model).to_bytes().unwrap(), new);
}

#[test]
fn requested_keys_are_kept() {
    let folder = folder();
    let out = path(&folder, "out.onnx");
    output(&format!("strip tests/profiled/mlp.onnx -o {out} --keep callsite"));
    let new = fs::read(&out).unwrap();
    assert!(contains(&new, b"pkg.jax2onnx.callsite") && !contains(&new, b"pkg.jax2onnx.plugin"));
    let Run { status, errors, .. } =
        run(&format!("strip tests/profiled/mlp.onnx -o {out} --keep all"));
    assert_eq!(status, 2);
    assert!(errors.contains("callsite") && errors.contains("sourcemap"), "{errors}");
}

#[test]
fn a_model_can_be_stripped_in_place_and_its_map_kept() {
    let folder = folder();
    let (out, map) = (path(&folder, "m.onnx"), path(&folder, "m.onnx.map"));
    fs::copy(data("mlp.onnx"), &out).unwrap();
    let said = output(&format!("strip {out} -o {out} --map {map}"));
    assert!(said.contains("removed 57 metadata entries"), "{said}");
    let profile = output("profile tests/profiled/mlp.onnx tests/profiled/mlp.profile.json");
    // The commands find the map beside the model.
    assert_eq!(output(&format!("profile {out} tests/profiled/mlp.profile.json")), profile);
    // Stripping again can keep the digest, which identifies the map. There is no map to move then.
    let before = fs::read(&out).unwrap();
    output(&format!("strip {out} -o {out} --keep sourcemap"));
    assert_eq!(fs::read(&out).unwrap(), before);
    let error = trouble(&format!("strip {out} -o {out} --keep sourcemap --map {map}"));
    assert!(error.contains("choose one"), "{error}");
    assert!(
        trouble(&format!("strip {out} -o {out} --map {map}")).contains("already a separate file")
    );
    output(&format!("strip {out} -o {out}"));
    assert!(!contains(&fs::read(&out).unwrap(), KEY), "the digest is provenance as well");
    let error = trouble(&format!("strip {out} -o {out} --map {map}"));
    assert!(error.contains("the model has no source map"), "{error}");
}

#[test]
fn weights_beside_the_model_must_be_beside_the_result() {
    let (from, to) = (folder(), folder());
    let model = path(&from, "m.onnx");
    let proto = onnx_file::read_file(&data("mlp.onnx")).unwrap();
    onnx_file::Model::from(proto).save(model.as_ref(), onnx_file::Placement::External).unwrap();
    let beside = path(&from, "stripped.onnx");
    output(&format!("strip {model} -o {beside}"));
    let out = path(&to, "m.onnx");
    let error = trouble(&format!("strip {model} -o {out}"));
    assert!(error.contains("`m.onnx.data` beside it; copy that file to"), "{error}");
    assert!(!to.path().join("m.onnx").exists());
    fs::copy(from.path().join("m.onnx.data"), to.path().join("m.onnx.data")).unwrap();
    output(&format!("strip {model} -o {out}"));
}

#[test]
fn failures_leave_old_files_alone() {
    let folder = folder();
    let (bad, out) = (path(&folder, "bad.onnx"), path(&folder, "out.onnx"));
    fs::write(&out, "precious").unwrap();
    let good = fs::read(data("mlp.onnx")).unwrap();
    for bytes in [&good[..good.len() / 2], b"", b"not a model at all", &[0xff; 64]] {
        fs::write(&bad, bytes).unwrap();
        trouble(&format!("strip {bad} -o {out}"));
        assert_eq!(fs::read(&out).unwrap(), b"precious");
    }
    trouble(&format!("strip tests/profiled/none.onnx -o {out}"));
    let Run { status, errors, .. } = run("strip tests/profiled/mlp.onnx -o tests");
    assert_eq!(status, 2, "{errors}");
}

#[test]
fn the_result_cannot_overwrite_other_files() {
    let folder = folder();
    let (model, source) = (path(&folder, "m.onnx"), path(&folder, "m.py"));
    fs::copy(data("mlp.onnx"), &model).unwrap();
    fs::write(&source, "def f(x):\n    return x\n").unwrap();
    let error = trouble(&format!("strip {model} -o {source}"));
    assert!(error.contains("would overwrite a file that is not an ONNX model"), "{error}");
    assert!(fs::read_to_string(&source).unwrap().starts_with("def f"));
}

#[test]
fn the_map_cannot_overwrite_a_model() {
    let folder = folder();
    let (model, out) = (path(&folder, "m.onnx"), path(&folder, "out.onnx"));
    fs::copy(data("mlp.onnx"), &model).unwrap();
    let before = fs::read(&model).unwrap();
    let error = trouble(&format!("strip {model} -o {out} --map {model}"));
    assert!(error.contains("`--map` would overwrite the model"), "{error}");
    let detour = path(&folder, "./out.onnx");
    let error = trouble(&format!("strip {model} -o {out} --map {detour}"));
    assert!(error.contains("`--map` would overwrite the file given as `--out`"), "{error}");
    assert_eq!(fs::read(&model).unwrap(), before);
    assert!(!folder.path().join("out.onnx").exists());
}

#[test]
fn the_result_has_a_default_name() {
    let folder = folder();
    let model = path(&folder, "mlp.onnx");
    fs::copy("tests/profiled/mlp.onnx", &model).unwrap();
    assert!(output(&format!("strip {model}")).contains("mlp.stripped.onnx: removed"));
    assert!(folder.path().join("mlp.stripped.onnx").exists());
}

/// A model without missed operators is distinguished from one without records of them.
#[test]
fn a_model_without_metadata_may_have_missed_operators() {
    let folder = folder();
    let said = |options: &str| {
        let out = path(&folder, "stripped.onnx");
        output(&format!("strip tests/models/full.onnx -o {out} {options}"));
        run(&format!("show --missed {out}")).output
    };
    let none = "no operator was nearly recognised\n";
    assert_eq!(said("--keep callsite"), none);
    assert_eq!(said("--keep plugin"), none);
    assert!(said("").contains("or the model was exported without `--provenance`"), "{}", said(""));
}
