//! Programs and their ONNX models: the files in `filetests/`.
//!
//! The first line selects the comparison, the last lines are the expectation:
//!
//! ```text
//! // test: lower
//! { lambda ; a:f32[2]. let
//!     b:f32[2] = sin a
//!   in (b,) }
//! // gives:
//! // jax_model (float[2] x0) => (float[2] y0)
//! …
//! ```
//!
//! - `lower`: the graph as the rules emitted it, before any other stage.
//! - `operators`: the number of nodes of each operator in that graph, and the digest of its text,
//!   for long graphs.
//! - `convert`: the finished graph, and the opset.
//! - `model`: the operators of the finished graph, and its digest, for long graphs.
//! - `error`: the error message.
//!
//! All programs except those of `error` must convert, whatever is compared. If a file names another place
//! for its `numbers`, it is the recording of a program there, whose results are compared with JAX's. A file can be passed to
//! `jax2onnx convert` directly. `INSTA_UPDATE=always cargo test -p pipeline --test files` updates
//! the expectations.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use onnx::Graph;
use pipeline::{Places, Recording};
use provenance::Origins;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/filetests");
const TEST: &str = "// test: ";
const GIVES: &str = "// gives:\n";

fn files() -> Vec<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let groups = entries(Path::new(FOLDER)).filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = groups.flat_map(|group| entries(&group)).collect();
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn recording(text: &str) -> Result<Recording, String> {
    Recording::parse(text, 1 << 20).map_err(|error| error.to_string())
}

/// Returns the text that is compared for the program of a file.
fn result(text: &str) -> Result<String, String> {
    let Some(test) = text.strip_prefix(TEST).and_then(|rest| rest.lines().next()) else {
        return Err(format!("the first line is not `{TEST}…`"));
    };
    let mut recording = recording(text)?;
    let mut origins = Origins::default();
    let converted = recording.convert(None, &mut origins);
    if test == "error" {
        let Err(error) = converted else { return Err("the program converts".to_owned()) };
        let stacks = &mut recording.stacks;
        let mut places = Places { origins: &origins, stacks, resolve: &|_, _| {} };
        let (family, diagnostic) = places.diagnose(error);
        return Ok(format!("{}{}", family.class_name(), diagnostic.render(&|_, _| None)));
    }
    let converted = converted.map_err(|error| error.to_string())?;
    let lowered = || {
        let (program, boundary) = (&recording.program, &recording.boundary);
        let options = lower::Options::default();
        lower::lower(program, boundary, &options, &mut Origins::default()).unwrap().graph
    };
    match test {
        "lower" => Ok(onnx::text::print(&lowered())),
        "operators" => Ok(operators(&lowered())),
        "model" => Ok(operators(&converted.graph)),
        "convert" => {
            Ok(format!("opset {}\n{}", converted.opset, onnx::text::print(&converted.graph)))
        }
        other => Err(format!("there is no test `{other}`")),
    }
}

fn operators(graph: &Graph) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut blocks = vec![Graph::MAIN];
    while let Some(block) = blocks.pop() {
        for node in graph.nodes_of(block).map(|id| graph.node(id)) {
            *counts.entry(node.op.name.to_string()).or_default() += 1;
            blocks.extend(node.blocks());
        }
    }
    let mut text = String::new();
    for (name, count) in counts {
        writeln!(text, "{count:5} {name}").unwrap();
    }
    writeln!(text, "digest {}", provenance::digest(onnx::text::print(graph).as_bytes())).unwrap();
    text
}

/// Returns the file with this result as its expectation.
fn with_expectation(text: &str, result: &str) -> String {
    let program = text.split(GIVES).next().unwrap_or(text).trim_end();
    let mut file = format!("{program}\n{GIVES}");
    for line in result.lines() {
        file += format!("// {line}").trim_end();
        file.push('\n');
    }
    file
}

/// Returns the first lines that differ.
fn difference(expected: &str, found: &str) -> String {
    let at = expected.lines().zip(found.lines()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.lines().skip(at).take(6).collect::<Vec<_>>().join("\n    ");
    format!("line {}\n  expected\n    {}\n  found\n    {}", at + 1, part(expected), part(found))
}

#[test]
fn programs_match_their_expectations() {
    let update = std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always");
    let (files, next, failures) = (files(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let check = |path: &PathBuf| {
        let text = read(path);
        let found = match result(&text) {
            Ok(result) => with_expectation(&text, &result),
            Err(reason) => return Some(reason),
        };
        if update && found != text {
            fs::write(path, &found).unwrap();
        }
        (!update && found != text).then(|| difference(&text, &found))
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(reason) = check(path) {
                        let name = path.strip_prefix(FOLDER).unwrap().display();
                        failures.lock().unwrap().push(format!("{name}: {reason}"));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    if !failures.is_empty() {
        panic!(
            "{}\n{} of {} files give something else; \
             INSTA_UPDATE=always cargo test -p pipeline --test files updates them",
            failures.join("\n"),
            failures.len(),
            files.len()
        );
    }
}

/// Returns the primitive that a file is about: its name up to the first dot.
fn subject(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.split('.').next().unwrap_or(name).to_owned()
}

#[test]
fn every_primitive_has_a_file() {
    let (mut covered, mut mistaken) = (BTreeSet::new(), Vec::new());
    for path in files() {
        let text = read(&path);
        let recording = recording(&text).unwrap();
        let eqns = recording.program.jaxprs.iter().flat_map(|jaxpr| &jaxpr.eqns);
        let primitives: BTreeSet<String> = eqns.map(|eqn| eqn.primitive.to_string()).collect();
        let subject = subject(&path);
        if !primitives.contains(&subject) {
            mistaken.push(path);
        } else if !text.starts_with("// test: error") {
            covered.insert(subject);
        }
    }
    assert!(mistaken.is_empty(), "files without an equation of what they are called: {mistaken:?}");
    let missing: Vec<_> = lower::primitives()
        .iter()
        .map(|row| row.name)
        .filter(|name| !covered.contains(*name))
        .collect();
    assert!(missing.is_empty(), "primitives without a file in {FOLDER}: {missing:?}");
}
