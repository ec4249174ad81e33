//! `probe`: values become outputs, chosen by line, module or name.

use std::fs;

use crate::Run;
use crate::shell::{folder, output, path, run, trouble};

const MLP: &str = "tests/profiled/mlp.onnx";
const LOOPS: &str = "tests/profiled/loops.onnx";

fn outputs(file: &str) -> Vec<String> {
    let model = onnx_file::read(fs::read(file).unwrap()).unwrap();
    model.graph.unwrap().output.into_iter().map(|value| value.name).collect()
}

/// Runs `probe` and returns what it says, with the folder replaced, and the outputs of the copy.
fn probed(model: &str, options: &str) -> (Run, Vec<String>) {
    let folder = folder();
    let out = path(&folder, "out.onnx");
    let mut run = run(&format!("probe {model} -o {out} {options}"));
    for text in [&mut run.output, &mut run.errors] {
        *text = text.replace(folder.path().to_str().unwrap(), "FOLDER");
    }
    let outputs = if run.status == 0 { outputs(&out) } else { Vec::new() };
    (run, outputs)
}

#[test]
fn all_values_are_watched_unless_some_are_chosen() {
    let own = outputs(MLP);
    let (all, names) = probed(MLP, "");
    assert_eq!((all.status, &names[..own.len()]), (0, &own[..]));
    assert!(names.iter().any(|name| name.starts_with("/norm/")));
    let (_, norm) = probed(MLP, "--module norm");
    assert!(norm[own.len()..].iter().all(|name| name.starts_with("/norm/")), "{norm:?}");
    let (_, line) = probed(MLP, "--line mlp.py:20");
    assert!(line.len() > own.len() && line.len() < names.len(), "{line:?}");
    let (_, node) = probed(MLP, "--node /first/Gemm");
    assert_eq!(node[own.len()..], ["/first/Gemm_output_0"]);
    let (_, both) = probed(MLP, "--node /first/Gemm_output_0 --module norm");
    assert_eq!(both.len(), norm.len() + 1);
}

#[test]
fn models_without_lines_say_how_to_get_them() {
    let folder = folder();
    let bare = path(&folder, "bare.onnx");
    output(&format!("strip {MLP} -o {bare}"));
    let (found, _) = probed(&bare, "--line mlp.py:20");
    assert_eq!(found.status, 1);
    assert!(found.errors.contains("export it with `jax2onnx export"), "{}", found.errors);
}

#[test]
fn verify_lists_the_references() {
    let error = trouble(&format!("verify {MLP}"));
    for option in ["--reference", "--function", "--dump"] {
        assert!(error.contains(option), "{error}");
    }
}

#[test]
fn the_smallest_values_are_watched_within_a_limit() {
    let (all, names) = probed(MLP, "");
    let (some, fewer) = probed(MLP, "--limit 200B");
    assert!(fewer.len() < names.len());
    insta::assert_snapshot!(format!("{}{}{}", all.output, some.output, some.errors));
    insta::assert_snapshot!(trouble(&format!("probe {MLP} --limit 10B --module norm")));
    assert!(trouble(&format!("probe {MLP} --limit 1B")).contains("more than 1 B; watch fewer"));
    assert!(
        trouble(&format!("probe {MLP} --limit 1B --node /Mul")).contains("1 value takes 256 B")
    );
}

#[test]
fn values_in_bodies_cannot_be_outputs() {
    let (run, _) = probed(LOOPS, "");
    insta::assert_snapshot!(format!("{}{}", run.output, run.errors));
    let (run, _) = probed(LOOPS, "--line loops.py:8");
    assert_eq!(run.status, 1);
    insta::assert_snapshot!(run.errors);
    let (run, _) = probed("tests/models/shared.onnx", "");
    insta::assert_snapshot!(format!("{}{}", run.output, run.errors));
}

#[test]
fn requests_without_a_value_are_explained() {
    let mut said = String::new();
    for options in [
        "--line mlp.py:1",
        "--line mpl.py:20",
        "--module nrom",
        "--node /frst/Gemm",
        "--module firs",
    ] {
        let (run, _) = probed(MLP, options);
        assert_eq!(run.status, 1, "{options}");
        said.push_str(&format!("{options}\n{}", run.errors));
    }
    for options in ["--line mlp.py:22-20", "--line mlp.py:0", "--size C=3", "--size b=2"] {
        let (run, _) = probed(MLP, options);
        assert_eq!(run.status, 2, "{options}");
        let first = run.errors.lines().next().unwrap_or_default();
        said.push_str(&format!("{options}\n{first}\n"));
    }
    insta::assert_snapshot!(said);
    let wrong = trouble("probe tests/profiled/mlp.onnx -o tests/profiled/mlp.onnx");
    assert!(wrong.contains("would overwrite the model"), "{wrong}");
    assert!(trouble("probe m.onnx --line 20").contains("write FILE:LINE"));
    assert!(trouble("probe").contains("required"));
}

#[test]
fn recorders_are_programs_of_at_most_sixty_lines() {
    for (language, word) in
        [("py", "def record("), ("js", "async function record"), ("cpp", "Dump")]
    {
        let text = output(&format!("probe --recorder {language}"));
        assert!(text.contains(word) && text.lines().count() <= 60, "{language}");
    }
}
