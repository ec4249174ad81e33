//! Entry points for fuzzing: for any input, these must return quickly and use little memory.
//!
//! The targets in `fuzz/` and the tests of hostile input call the same functions.

use std::io;
use std::path::Path;

use clap::Parser;
use jaxpr::text::{Document, Printed};
use provenance::{Origins, SourceMap};

use crate::commands::Command;
use crate::commands::explain::{explain, write};
use crate::excerpt::Excerpts;
use crate::log::without_colors;
use crate::model::{FrameChoice, Fused, Index, Model, OptimizedNode};
use crate::style::Text;
use crate::view::{Editor, Subject, data, page};
use crate::{Cli, Terminal};

/// A log with names that a model is likely to have.
const LOG: &str =
    "running Add node. Name:'/Add' Status Message: Node (/a/MatMulAddFusion) Op (x) [";

/// Reads a model and prints it in every form.
///
/// # Panics
/// If a name escapes from the data of the page.
pub fn model(bytes: &[u8]) {
    let Ok(model) = Model::from_bytes(bytes) else { return };
    let index = Index::new(&model);
    let first = index.names().next().unwrap_or_default().to_owned();
    let ways: [&[&str]; 6] = [
        &[],
        &["--by", "line", "--parameters"],
        &["--by", "rule"],
        &["--json"],
        &["--text"],
        &["--node", &first],
    ];
    for way in ways {
        let arguments = [&["jax2onnx", "show", "model"], way].concat();
        let Ok(Cli { command: Command::Show(show) }) = Cli::try_parse_from(arguments) else {
            continue;
        };
        let (output, errors) = (&mut io::sink(), &mut io::sink());
        let terminal = &mut Terminal { input: None, output, errors, colors: true, width: 80 };
        // An unknown name is a valid answer.
        let _ = show.show(&model, terminal);
    }
    write(&mut Text::new(false), &index, &explain(&index, LOG), None, &FrameChoice::default());
    view_page(&index);
}

fn view_page(index: &Index<'_>) {
    let Ok(editor) = Editor::new(None, Path::new("page.html")) else { return };
    let (title, excerpts, editor) = ("model", &Excerpts::new(index.model), &editor);
    let (timed, errors, other) = (None, None, None);
    let choice = FrameChoice::default();
    let subject = Subject { title, index, excerpts, editor, choice, timed, errors, other };
    let text = page(&data(&subject).0);
    assert_eq!(text.matches("</script").count(), 2, "the page has two scripts");
}

/// Parses a source map and looks up everything in it.
pub fn source_map(bytes: &[u8]) {
    let Ok(map) = SourceMap::parse(&String::from_utf8_lossy(bytes)) else { return };
    let names = (0..map.len().min(64)).filter_map(|node| map.node_name(node).map(str::to_owned));
    let names: Vec<String> = names.collect();
    let nodes = names.chunks(2).zip(names.windows(3)).map(|(outputs, inputs)| {
        let name = &outputs[0];
        OptimizedNode { name, op: "Conv", body: 0, inputs, outputs }
    });
    let fused = Fused::new(&map, nodes.collect());
    for (node, name) in names.iter().enumerate() {
        map.sources(node, &[]);
        fused.possible_sources(node);
        map.file(name);
    }
}

/// Explains a log about the model in `model`.
pub fn log(model: &[u8], log: &[u8]) {
    let Ok(model) = Model::from_bytes(model) else { return };
    let index = Index::new(&model);
    let log = String::from_utf8_lossy(log);
    write(
        &mut Text::new(true),
        &index,
        &explain(&index, &without_colors(&log)),
        None,
        &FrameChoice::default(),
    );
}

/// Parses text syntax, prints the result and parses it again.
///
/// # Panics
/// If the printed text cannot be parsed, or parses as a different graph.
pub fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let read = |text: &str| onnx::text::parse(text, &mut Origins::default());
    let Ok(graph) = read(&text) else { return };
    let printed = onnx::text::print(&graph);
    if !printed.contains("bytes, not shown") {
        let again = read(&printed).map(|graph| onnx::text::print(&graph));
        assert_eq!(again.ok().as_ref(), Some(&printed), "{text}");
    }
}

/// Parses a program, prints the result and parses it again.
///
/// # Panics
/// If the printed text cannot be parsed, or parses as a different program.
pub fn program(bytes: &[u8]) {
    const LIMIT: usize = 1 << 20;
    let text = String::from_utf8_lossy(bytes);
    let read = |text: &str| jaxpr::text::parse(text, LIMIT);
    let print = |document: &Document| {
        let Document { header, program, stacks, entry, .. } = document;
        let stacks = Some(stacks);
        jaxpr::text::print(&Printed { header, program, stacks, entry: *entry, weights: true })
    };
    let Ok(document) = read(&text) else { return };
    let printed = print(&document);
    let again = read(&printed).map(|document| print(&document));
    assert_eq!(again.as_ref(), Ok(&printed), "{text}");
}
