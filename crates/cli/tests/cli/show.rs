//! `jax2onnx show`

use insta::assert_snapshot;
use serde_json::Value;

use crate::{model, output, run, run_with};

#[test]
fn a_model_is_a_tree_of_modules() {
    assert_snapshot!(output(&["show", &model("map.onnx")]));
}

#[test]
fn nodes_that_a_runtime_fused_keep_their_lines() {
    assert_snapshot!(output(&["show", &model("optimised.onnx")]));
}

#[test]
fn nodes_by_line() {
    assert_snapshot!(output(&["show", &model("map.onnx"), "--by", "line"]));
}

#[test]
fn nodes_by_operator() {
    assert_snapshot!(output(&["show", &model("minimal.onnx"), "--by", "op"]));
}

#[test]
fn nodes_by_rule() {
    assert_snapshot!(output(&["show", &model("full.onnx"), "--by", "rule"]));
}

#[test]
fn parameters_are_listed_on_demand() {
    assert_snapshot!(run(&["show", &model("off.onnx"), "--parameters"]).output);
}

#[test]
fn one_node_with_its_whole_stack() {
    assert_snapshot!(output(&["show", &model("map.onnx"), "--node", "/MatMul"]));
}

#[test]
fn a_fused_node_has_several_sources() {
    let name = "fused /blocks.0/up/Gemm";
    assert_snapshot!(output(&["show", &model("optimised.onnx"), "--node", name]));
}

#[test]
fn a_node_is_shown_at_each_level_of_metadata() {
    for level in ["minimal.onnx", "full.onnx", "off.onnx"] {
        assert_snapshot!(level, run(&["show", &model(level), "--node", "/blocks.0/Tanh"]).output);
    }
}

/// Columns would be empty without a word.
#[test]
fn a_model_without_sources_is_noted() {
    for (name, is_noted) in [("off.onnx", true), ("minimal.onnx", false), ("map.onnx", false)] {
        let run = run(&["show", &model(name)]);
        let note = "does not record the lines of Python that its nodes came from; export it with \
                    `jax2onnx export --provenance sourcemap`";
        assert_eq!(
            (run.status, run.errors.contains(note)),
            (0, is_noted),
            "{name}: {}",
            run.errors
        );
    }
}

#[test]
fn text_syntax() {
    assert_snapshot!(output(&["show", &model("off.onnx"), "--text"]));
}

#[test]
fn maps_are_found_inside_and_beside_the_model() {
    let by_line = |arguments: &[&str]| {
        let text = output(&[&["show", "--by", "line"], arguments].concat());
        text.lines().filter(|line| line.starts_with("layers.py")).count()
    };
    let expected = by_line(&[&model("map.onnx")]);
    assert_eq!(expected, 5);
    for name in ["text.onnx", "beside.onnx"] {
        assert_eq!(by_line(&[&model(name)]), expected, "{name}");
    }
    assert_eq!(by_line(&[&model("off.onnx"), "--map", &model("beside.onnx.map")]), expected);
}

#[test]
fn a_binary_file_is_not_a_map() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("weights.bin");
    std::fs::write(&map, b"\xff\xfe\x00").unwrap();
    let shown = run(&["show", &model("off.onnx"), "--map", map.to_str().unwrap()]);
    assert_eq!(shown.status, 2);
    assert!(
        shown.errors.contains("weights.bin: not a source map: it is not text"),
        "{}",
        shown.errors
    );
}

#[test]
fn the_map_of_another_export_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let beside = folder.path().join("beside.onnx");
    std::fs::copy(model("beside.onnx"), &beside).unwrap();
    let shown = run(&["show", beside.to_str().unwrap()]);
    assert_eq!(shown.status, 0);
    assert!(shown.errors.contains("pass it with --map"), "{}", shown.errors);
    std::fs::write(folder.path().join("beside.onnx.map"), "{}").unwrap();
    let shown = run(&["show", beside.to_str().unwrap()]);
    assert!(shown.errors.contains("another export"), "{}", shown.errors);
    let map = folder.path().join("beside.onnx.map");
    let given = run(&["show", beside.to_str().unwrap(), "--map", map.to_str().unwrap()]);
    assert_eq!(given.status, 2);
    assert!(given.errors.contains("another export"), "{}", given.errors);
}

#[test]
fn excerpts_are_from_the_exported_file() {
    let folder = tempfile::tempdir().unwrap();
    let node = |name: &str| {
        std::fs::copy(model(name), folder.path().join(name)).unwrap();
        let path = folder.path().join(name);
        output(&["show", path.to_str().unwrap(), "--node", "/blocks.0/Tanh"])
    };
    let excerpt = "return x + jnp.tanh(self.up(x))";
    assert!(node("map.onnx").contains("`layers.py` was not found"));
    std::fs::write(folder.path().join("layers.py"), "something else\n".repeat(40)).unwrap();
    let changed = node("map.onnx");
    assert!(changed.contains("`layers.py` has changed since the export"), "{changed}");
    assert!(!changed.contains("something else"));
    let path = folder.path().join("map.onnx");
    for by in ["line", "module"] {
        let shown = run(&["show", path.to_str().unwrap(), "--by", by]);
        let note = "note: `layers.py` has changed since the export; line numbers are those of the";
        assert!(shown.errors.contains(note), "{}", shown.errors);
    }
    assert!(node("text.onnx").contains(excerpt), "the map has the text");
    std::fs::copy(model("layers.py"), folder.path().join("layers.py")).unwrap();
    assert!(node("map.onnx").contains(excerpt));
}

#[test]
fn scripts_read_json() {
    let read = |arguments: &[&str]| serde_json::from_str::<Value>(&output(arguments)).unwrap();
    let all = read(&["show", &model("map.onnx"), "--json"]);
    assert_eq!(all["nodes"].as_array().unwrap().len(), 13);
    assert_eq!(all["inputs"][1]["type"], "f32[4,3]");
    let node = read(&["show", &model("map.onnx"), "--node", "/MatMul", "--json"]);
    assert_eq!(node["inside"], "/Scan");
    let site = &node["sources"][0]["site"];
    assert_eq!((&site["file"], &site["line"]), (&"layers.py".into(), &31.into()));
    assert!(all["nodes"].as_array().unwrap().contains(&node));
}

#[test]
fn similar_names_are_suggested_for_an_unknown_one() {
    let wrong = run(&["show", &model("map.onnx"), "--node", "/block.0/Tanh"]);
    assert_eq!(wrong.status, 1);
    assert_snapshot!(wrong.errors);
}

#[test]
fn lines_fit_the_terminal() {
    let narrow = run_with(&["show", &model("map.onnx")], None, false, 60);
    assert!(narrow.output.lines().skip(8).all(|line| line.chars().count() <= 60));
    assert!(narrow.output.contains('…'));
    let lines = |text: &str| text.lines().filter(|line| line.contains(".py:")).count();
    let wide = run(&["show", &model("map.onnx")]).output;
    let is_place =
        |word: &&str| word.rsplit_once(':').is_some_and(|(_, n)| n.parse::<u32>().is_ok());
    let numbered = |text: &str| text.lines().filter(|l| l.split(' ').any(|w| is_place(&w))).count();
    assert!(lines(&wide) > 5);
    assert_eq!(numbered(&narrow.output), numbered(&wide), "lines keep their numbers");
}

#[test]
fn colours_are_only_for_terminals() {
    let shown = |colors| run_with(&["show", &model("map.onnx")], None, colors, usize::MAX).output;
    assert!(!shown(false).contains('\x1b'));
    assert!(shown(true).contains("\x1b[36mlayers.py:16\x1b[0m"));
}

#[test]
fn help_shows_examples_and_exit_statuses() {
    let all = output(&["--help"]);
    assert!(all.contains("Examples") && all.contains("Exit status"), "{all}");
    let commands = all.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands = commands.lines().filter(|line| !line.starts_with("   "));
    let mut seen = 0;
    for name in commands.map(|line| line.split_whitespace().next().unwrap()) {
        if name != "help" {
            let help = output(&[name, "--help"]);
            assert!(
                help.contains("Examples:\n") && help.contains(&format!("  jax2onnx {name}")),
                "{help}"
            );
            let examples = help.split("Examples:\n").nth(1).unwrap();
            // clap would wrap longer lines on a terminal of this width.
            assert!(examples.lines().all(|line| line.chars().count() <= 80), "{examples}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{all}");
    let nothing = run(&[]);
    assert_eq!((nothing.status, nothing.output.as_str()), (2, ""));
    assert!(nothing.errors.contains("Examples:"), "{}", nothing.errors);
    assert_eq!(run(&["show"]).status, 2);
    assert_eq!(run(&["frobnicate"]).status, 2);
}

#[test]
fn completions_and_man_pages_are_generated() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(output(&["completions", shell]).contains("explain"), "{shell}");
    }
    assert!(output(&["man"]).contains(".TH jax2onnx"));
    assert!(output(&["man", "show"]).contains(".TH jax2onnx-show"));
    assert_eq!(run(&["man", "frobnicate"]).status, 2);
}

#[test]
fn a_model_with_metadata_missed_nothing() {
    for (name, is_recorded) in
        [("map.onnx", true), ("minimal.onnx", true), ("off.onnx", false), ("beside.onnx", true)]
    {
        let text = output(&["show", &model(name), "--missed"]);
        assert_eq!(text.contains("without `--provenance`"), !is_recorded, "{name}: {text}");
    }
    let beside = output(&["show", &model("beside.onnx"), "--missed"]);
    assert!(beside.contains("the source map is a separate file"), "{beside}");
}

#[test]
fn a_package_without_lines_in_the_model_is_an_error() {
    let profiled = "tests/profiled/mlp.onnx tests/profiled/mlp.profile.json";
    for command in [
        "show tests/profiled/mlp.onnx --by line --package flux",
        &format!("profile {profiled} --package flux"),
        "explain tests/profiled/mlp.onnx /norm/Mul --package flux",
        "view tests/profiled/mlp.onnx -o /nonexistent/page.html --package flux",
    ] {
        let run = crate::shell::run(command);
        assert_eq!((run.status, run.output.as_str()), (1, ""), "{command}");
        insta::allow_duplicates! { insta::assert_snapshot!(run.errors); }
    }
    let found = crate::shell::output("show tests/profiled/mlp.onnx --by line --package flax.nnx");
    assert!(found.contains("→ flax/nnx/"), "{found}");
}
