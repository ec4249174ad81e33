//! Files that are not models, and malicious models.

use std::fs;
use std::path::Path;
use std::process::Command;

use cli::fuzz;

use crate::measure::within;
use crate::protobuf::{field, model, node, number, varint};
use crate::seed;

const MIB: usize = 1 << 20;

/// Runs the program on a file with these bytes. Returns the status, the output and the errors.
fn show(bytes: &[u8], arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    fs::write(&path, bytes).unwrap();
    run(&path, arguments)
}

fn run(path: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jax2onnx"));
    let done = command.arg("show").arg(path).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn a_truncated_model_is_an_error() {
    let whole = seed("map.onnx");
    within(8 * MIB, || {
        for len in (0..whole.len()).step_by(7) {
            // The last fields of a model may be missing without a detectable error.
            fuzz::model(&whole[..len]);
        }
    });
    let (status, _, errors) = show(&whole[..whole.len() - 100], &[]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("damaged"), "{errors}");
}

#[test]
fn a_file_that_is_not_a_model_is_an_error() {
    for bytes in [&b""[..], b"hello, world\n", &[0; 64], &[0xff; 64], b"\x0a\x00"] {
        let (status, output, errors) = show(bytes, &[]);
        assert_eq!((status, output.as_str()), (Some(2), ""));
        assert!(errors.starts_with("error: ") && errors.contains("not an ONNX model"), "{errors}");
    }
    let (status, _, errors) = run(Path::new("tests/models"), &[]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("not a regular file") || errors.contains("directory"), "{errors}");
    let (status, _, errors) = run(Path::new("/dev/zero"), &[]);
    assert_eq!(status, Some(2), "{errors}");
    assert_eq!(run(Path::new("tests/models/missing.onnx"), &[]).0, Some(2));
}

#[test]
fn false_lengths_take_no_memory() {
    for len in [1 << 20, 1 << 31, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
        for at in [7, 8, 14, 25] {
            let lie = [varint(at << 3 | 2), varint(len), vec![0; 16]].concat();
            within(MIB, || fuzz::model(&[number(1, 10), lie].concat()));
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let mut graph = node("innermost", &[], &["y"], "Neg");
    for _ in 0..5_000 {
        let attribute = [field(1, b"body"), field(6, &graph), number(20, 5)].concat();
        graph = field(1, &[field(2, b"y"), field(4, b"If"), field(5, &attribute)].concat());
    }
    let bytes = model(&graph);
    // Each level holds a copy of its contents, until the limit is reached.
    within(64 * MIB, || fuzz::model(&bytes));
    let (status, _, errors) = show(&bytes, &[]);
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("model.onnx: graphs are nested too deeply: "), "{errors}");
}

#[test]
fn many_empty_messages_take_a_reasonable_amount_of_memory() {
    for (inner, refused) in [(1, true), (5, true), (11, true), (13, true), (16, false)] {
        let bytes = model(&field(inner, b"").repeat(MIB / 2));
        within(10 * bytes.len() + 64 * MIB, || fuzz::model(&bytes));
        let (status, _, errors) = show(&bytes, &[]);
        assert_eq!(status, Some(if refused { 2 } else { 0 }), "{inner} {errors}");
        let said = "without its weights, it takes more than 72 MiB of memory, the limit for a file \
                    of this size";
        assert!(!refused || errors.contains(said), "{errors}");
    }
}

#[test]
fn an_operator_with_many_operands_takes_a_reasonable_amount_of_memory() {
    let bytes = model(&field(1, &[field(1, b"x").repeat(MIB / 8), field(4, b"Sum")].concat()));
    within(10 * bytes.len() + 64 * MIB, || fuzz::model(&bytes));
    let (status, output, errors) = show(&bytes, &["--json"]);
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(output.matches("\"name\": \"x\"").count(), MIB / 8);
}

#[test]
fn weights_are_not_loaded() {
    let weights = vec![1_u8; 16 * MIB];
    let tensor = [number(1, 1 << 22), number(2, 1), field(8, b"w"), field(9, &weights)].concat();
    let graph = [node("/Neg", &["w"], &["y"], "Neg"), field(5, &tensor)].concat();
    let bytes = model(&graph);
    drop((weights, tensor, graph));
    within(MIB, || fuzz::model(&bytes));
    let (status, output, _) = show(&bytes, &["--parameters"]);
    assert_eq!(status, Some(0));
    assert!(output.contains("f32[4194304]"), "{output}");
}

#[test]
fn data_outside_the_folder_is_reported_and_not_opened() {
    let tensor = |location: &str| {
        let entry = [field(1, b"location"), field(2, location.as_bytes())].concat();
        let tensor = [number(1, 4), number(2, 1), field(8, location.as_bytes())].concat();
        field(5, &[tensor, field(13, &entry), number(14, 1)].concat())
    };
    let files = ["../../secret.bin", "/etc/passwd", "weights/model.data"];
    let graph: Vec<u8> = files.iter().flat_map(|file| tensor(file)).collect();
    let (status, output, _) = show(&model(&graph), &[]);
    assert_eq!(status, Some(0));
    let warnings: Vec<&str> = output.lines().filter(|line| line.starts_with("warning")).collect();
    assert_eq!(warnings.len(), 2, "{output}");
    assert!(output.contains("folder: ../../secret.bin") && output.contains("folder: /etc/passwd"));
    let (_, output, _) = show(&model(&graph), &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(json["warnings"].as_array().unwrap().len(), 2, "{output}");
}

#[test]
fn absurd_dimensions_are_shown_as_they_are() {
    let dims: Vec<u8> = [u64::MAX >> 1, u64::MAX, 0, u64::MAX >> 1]
        .iter()
        .flat_map(|dim| number(1, *dim))
        .collect();
    let tensor = [dims, number(2, 999), field(8, b"w")].concat();
    let (status, output, _) = show(&model(&field(5, &tensor)), &["--parameters"]);
    assert_eq!(status, Some(0));
    assert!(output.contains("?[9223372036854775807,-1,0,9223372036854775807]"), "{output}");
    // Packed dimensions take more memory once decoded.
    let packed = [field(1, &vec![0; 8 * MIB]), field(8, b"w")].concat();
    let bytes = model(&field(5, &packed));
    within(MIB, || fuzz::model(&bytes));
}

#[test]
fn cycles_and_duplicates_are_shown_as_they_are() {
    let nodes = [
        node("/a", &["y", "y"], &["x"], "Neg"),
        node("/a", &["x"], &["y"], "Neg"),
        node("", &["x"], &["x"], "Neg"),
        node("/a/b/c", &[], &[], ""),
    ];
    let bytes = model(&nodes.concat());
    within(MIB, || fuzz::model(&bytes));
    let (status, output, _) = show(&bytes, &[]);
    assert_eq!(status, Some(0));
    assert!(output.contains("nodes   4"), "{output}");
}

#[test]
fn text_that_is_no_utf8_is_an_error() {
    let bad = field(1, &[field(3, b"/a\xff"), field(4, b"Neg")].concat());
    let (status, _, errors) = show(&model(&bad), &[]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("UTF-8"), "{errors}");
}

#[test]
fn names_cannot_control_the_terminal() {
    let name = "/a\x1b[2J\x07\u{9b}8m\u{7f}\u{202e}";
    let bytes = model(&node(name, &[], &["\x1b]0;owned\x07\u{2066}"], "N\x1b[8m"));
    for arguments in [&[][..], &["--by", "op"], &["--text"], &["--json"]] {
        let (status, output, errors) = show(&bytes, arguments);
        assert_eq!(status, Some(0), "{errors}");
        let harmful = ['\x1b', '\x07', '\u{9b}', '\u{7f}', '\u{202e}', '\u{2066}'];
        assert!(!output.contains(harmful), "{output}");
    }
}

#[test]
fn names_cannot_end_lines() {
    let plain = model(&node("/a b", &["x"], &["y"], "Neg"));
    let bytes = model(&node("/a\nb", &["x"], &["y"], "Neg"));
    for arguments in [&[][..], &["--by", "op"]] {
        let (status, output, errors) = show(&bytes, arguments);
        assert_eq!(status, Some(0), "{errors}");
        let expected = show(&plain, arguments).1.lines().count();
        assert_eq!(output.lines().count(), expected, "{output}");
    }
    assert!(show(&bytes, &[]).1.contains("a\\nb"));
}

#[test]
fn a_name_of_many_levels_is_shown() {
    let bytes = model(&node(&"/a".repeat(100_000), &[], &["y"], "Neg"));
    within(32 * MIB, || fuzz::model(&bytes));
    assert_eq!(show(&bytes, &[]).0, Some(0));
}
