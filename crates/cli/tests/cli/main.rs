//! The command line as users and scripts run it, on exported models.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod convert;
mod diff;
mod doctor;
mod explain;
mod functions;
mod listing;
mod node_data;
mod probe;
mod profile;
mod shell;
mod show;
mod strip;
mod torch;
mod view;

use std::io::Read;

use cli::{Terminal, run_on};

/// The exit status and the output of a command.
pub(crate) struct Run {
    pub(crate) status: u8,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Returns the path of a test model.
pub(crate) fn model(name: &str) -> String {
    format!("tests/models/{name}")
}

/// Runs a command line.
pub(crate) fn run(arguments: &[&str]) -> Run {
    run_with(arguments, None, false, usize::MAX)
}

/// Runs a command line with standard input and the given terminal.
pub(crate) fn run_with(
    arguments: &[&str],
    mut input: Option<&[u8]>,
    colors: bool,
    width: usize,
) -> Run {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let input = input.as_mut().map(|input| input as &mut dyn Read);
    let arguments = arguments.iter().map(Into::into).collect();
    let terminal = &mut Terminal { input, output: &mut output, errors: &mut errors, colors, width };
    let status = run_on(arguments, terminal);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { status, output: text(output), errors: text(errors) }
}

/// Runs a command line that must succeed without notes, and returns its output.
pub(crate) fn output(arguments: &[&str]) -> String {
    let run = run(arguments);
    assert_eq!((run.status, run.errors.as_str()), (0, ""), "{arguments:?}");
    run.output
}

/// Writes the graph with this text to a model in `folder`, and returns its path.
pub(crate) fn written(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let mut origins = provenance::Origins::default();
    let mut graph = onnx::text::parse(text, &mut origins).unwrap();
    onnx::assign_names(&mut graph, &origins);
    let model = onnx_file::encode(&graph, &onnx_file::EncodeOptions::new(23)).unwrap();
    let path = folder.path().join(name);
    model.save(&path, onnx_file::Placement::Inline).unwrap();
    path.to_str().unwrap().to_owned()
}
