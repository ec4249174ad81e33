//! Small files whose contents grow when they are read: functions that call each other, nested
//! graphs, and more nodes than a page can show.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::protobuf::{field, model, node, number};

/// Encodes a function of the domain `d` with these nodes.
fn function(name: &str, nodes: &[u8]) -> Vec<u8> {
    let nodes: Vec<u8> = renumbered(nodes);
    let opset = field(9, &[field(1, b"d"), number(2, 1)].concat());
    let fields = [field(1, name.as_bytes()), field(4, b"a"), field(5, b"b"), nodes, opset];
    field(25, &[fields.concat(), field(10, b"d")].concat())
}

/// Re-encodes the nodes of a graph as nodes of a function: field 7 instead of 1.
fn renumbered(mut nodes: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    while let Some((&tag, rest)) = nodes.split_first() {
        assert_eq!(tag, 1 << 3 | 2);
        let (mut len, mut shift, mut at) = (0_usize, 0, 0);
        loop {
            len |= usize::from(rest[at] & 0x7f) << shift;
            shift += 7;
            at += 1;
            if rest[at - 1] < 0x80 {
                break;
            }
        }
        found.extend(field(7, &rest[at..at + len]));
        nodes = &rest[at + len..];
    }
    found
}

/// Encodes a function call.
fn call(name: &str, output: &str) -> Vec<u8> {
    let texts = [(1, "a"), (2, output), (3, output), (4, name), (7, "d")];
    let fields: Vec<u8> = texts.iter().flat_map(|(at, text)| field(*at, text.as_bytes())).collect();
    field(1, &fields)
}

/// Encodes an `If` whose branch has these nodes.
fn branch(nodes: &[u8]) -> Vec<u8> {
    let attribute = [field(1, b"then_branch"), field(6, nodes), number(20, 5)].concat();
    field(1, &[field(1, b"c"), field(2, b"b"), field(4, b"If"), field(5, &attribute)].concat())
}

/// Encodes a model whose main graph calls the first of these functions.
fn calling(functions: &[Vec<u8>]) -> Vec<u8> {
    [model(&call("f0", "y")), functions.concat()].concat()
}

/// Encodes functions that each call the next one `times` times.
fn levels(count: usize, times: usize) -> Vec<Vec<u8>> {
    let body = |level: usize| match level + 1 == count {
        true => node("/Neg", &["a"], &["b"], "Neg"),
        false => {
            (0..times).flat_map(|i| call(&format!("f{}", level + 1), &format!("{i}"))).collect()
        }
    };
    (0..count).map(|level| function(&format!("f{level}"), &body(level))).collect()
}

/// Runs every command that reads a model. Returns their exit statuses and errors.
fn run_all(bytes: &[u8]) -> Vec<(Option<i32>, String)> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.onnx"), bytes).unwrap();
    let log = "running Neg node. Name:'/Neg' Status Message: it failed\n";
    fs::write(folder.path().join("log.txt"), log).unwrap();
    let profile = r#"[{"cat":"Node","pid":1,"tid":1,"dur":5,"ts":1,"ph":"X",
        "name":"/Neg_kernel_time","args":{"op_name":"Neg","provider":"CPUExecutionProvider"}}]"#;
    fs::write(folder.path().join("p.json"), profile).unwrap();
    let commands: [&[&str]; 9] = [
        &["show", "m.onnx"],
        &["show", "m.onnx", "--by", "line"],
        &["show", "m.onnx", "--json"],
        &["show", "m.onnx", "--node", "/Neg"],
        &["diff", "m.onnx", "m.onnx"],
        &["view", "m.onnx", "-o", "page.html"],
        &["explain", "m.onnx", "log.txt"],
        &["profile", "m.onnx", "p.json"],
        &["strip", "m.onnx", "-o", "stripped.onnx"],
    ];
    let run = |arguments: &&[&str]| {
        let start = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_jax2onnx"));
        let done = command.args(*arguments).current_dir(folder.path()).output().unwrap();
        // The limit is generous, because machines can be slow and busy. It catches only work that
        // never ends.
        assert!(start.elapsed() < Duration::from_secs(120), "{arguments:?} {:?}", start.elapsed());
        let status = done.status.code();
        let errors = String::from_utf8(done.stderr).unwrap();
        assert!(matches!(status, Some(0..=2)), "{arguments:?} {status:?} {errors}");
        (status, errors)
    };
    commands.iter().map(run).collect()
}

fn assert_read(bytes: &[u8]) {
    for (status, errors) in run_all(bytes) {
        assert_eq!(status, Some(0), "{errors}");
    }
}

#[test]
fn functions_that_call_each_other_twice_are_read() {
    for count in [2, 40] {
        assert_read(&calling(&levels(count, 2)));
    }
}

#[test]
fn functions_that_nothing_calls_are_read() {
    assert_read(&[model(&node("/Neg", &["x"], &["y"], "Neg")), levels(60, 2).concat()].concat());
}

#[test]
fn functions_that_call_themselves_are_read() {
    let body = || {
        let calls = (0..4).flat_map(|i| call(&format!("f{i}"), &format!("{i}")));
        [calls.collect(), node("/Neg", &["a"], &["b"], "Neg")].concat()
    };
    let all: Vec<Vec<u8>> = (0..4).map(|i| function(&format!("f{i}"), &body())).collect();
    assert_read(&calling(&all));
}

#[test]
fn long_chains_of_functions_are_read() {
    assert_read(&calling(&levels(5_000, 1)));
}

#[test]
fn calls_inside_branches_of_functions_are_read() {
    let body = |level: usize| {
        let next = format!("f{}", level + 1);
        let calls = [call(&next, "0"), call(&next, "1"), node("/Neg", &["a"], &["b"], "Neg")];
        branch(&calls.concat().repeat(3))
    };
    let all: Vec<Vec<u8>> = (0..20).map(|i| function(&format!("f{i}"), &body(i))).collect();
    assert_read(&calling(&all));
}

#[test]
fn branches_inside_branches_are_read_as_deep_as_protobuf_allows() {
    let nested = |depth: usize| {
        let innermost = node("/Neg", &["x"], &["b"], "Neg");
        model(&(0..depth).fold(innermost, |nodes, _| branch(&nodes)))
    };
    assert_read(&nested(30));
    for (status, errors) in run_all(&nested(40)) {
        assert_eq!(status, Some(2), "{errors}");
        assert!(errors.contains("graphs are nested too deeply"), "{errors}");
    }
}

/// Returns the error of `view`.
fn view(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.onnx"), bytes).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_jax2onnx"));
    let command = command.args(["view", "m.onnx", "-o", "page.html"]);
    let done = command.current_dir(folder.path()).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(!folder.path().join("page.html").exists());
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn a_page_of_too_many_nodes_is_refused() {
    let name = "/blocks.3/attention/Neg";
    let errors = view(&model(&node(name, &["x"], &["y"], "Neg").repeat(260_000)));
    let expected = "error: m.onnx: the model has 260000 nodes, but a page shows at most 250000; use \
                    `jax2onnx show`, which has no such limit\n";
    assert_eq!(errors, expected);
}

#[test]
fn a_page_of_too_many_operands_is_refused() {
    let inputs = field(1, b"/blocks.3/Neg_output_0").repeat(2_000_000);
    let errors = view(&model(&field(1, &[inputs, field(4, b"Sum")].concat())));
    assert!(errors.contains("the model has 2000000 operands and results"), "{errors}");
}
