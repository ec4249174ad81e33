//! Helpers for tests in the text syntax, which compare a graph before and after.

use onnx::text::{parse, print};
use onnx::{Assumption, Graph};
use provenance::Origins;

use crate::runner::Rules;
use crate::{Changed, Editor, Error, Form, Forms, Options, Pass, Report, Rewrite};

pub(crate) fn graph(text: &str, origins: &mut Origins) -> Graph {
    match parse(text, origins) {
        Ok(graph) => graph,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// Applies `rewrites` to a fixed point.
pub(crate) fn run(
    edit: &mut Editor<'_>,
    rewrites: impl IntoIterator<Item = &'static Rewrite>,
) -> Result<Changed, Error> {
    Rules::new("rewrites", rewrites).run(edit)
}

fn normal(text: &str) -> String {
    print(&graph(text, &mut Origins::default()))
}

pub(crate) fn edited(
    text: &str,
    run: impl Fn(&mut Editor<'_>) -> Changed,
) -> (String, Changed, Report) {
    edited_with(&Options::default(), text, run)
}

pub(crate) fn edited_with(
    options: &Options,
    text: &str,
    run: impl Fn(&mut Editor<'_>) -> Changed,
) -> (String, Changed, Report) {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    let mut edit = Editor::new(&mut graph, &mut origins, options);
    let changed = run(&mut edit);
    let report = edit.finish();
    onnx::verify(&graph, None).unwrap();
    (print(&graph), changed, report)
}

fn same(actual: &str, expected: &str) {
    assert!(actual == expected, "got:\n{actual}\nexpected:\n{expected}");
}

/// Asserts that the rewrite, applied to a fixed point, turns `input` into `output`.
pub(crate) fn rewrites_to(rewrite: &'static Rewrite, input: &str, output: &str) {
    let (text, changed, report) = edited(input, |edit| run(edit, [rewrite]).unwrap());
    same(&text, &normal(output));
    assert_eq!(changed, Changed::Yes);
    assert!(report.applied[rewrite.name] > 0);
}

/// Asserts the same as [`rewrites_to`], with native operators of opset 26 requested.
pub(crate) fn rewrites_to_natively(rewrite: &'static Rewrite, input: &str, output: &str) {
    let (text, changed, _) = edited_natively(rewrite, input);
    same(&text, &normal(output));
    assert_eq!(changed, Changed::Yes);
}

/// Asserts that the rewrite does not apply to `text`, even with native operators of opset 26
/// requested.
pub(crate) fn stays_natively(rewrite: &'static Rewrite, text: &str) {
    let (after, changed, _) = edited_natively(rewrite, text);
    same(&after, &normal(text));
    assert_eq!(changed, Changed::No);
}

/// Applies the rewrite to a fixed point with native operators of opset 26 requested, and returns the
/// resulting text.
pub(crate) fn rewritten_natively(rewrite: &'static Rewrite, text: &str) -> String {
    edited_natively(rewrite, text).0
}

fn edited_natively(rewrite: &'static Rewrite, text: &str) -> (String, Changed, Report) {
    let forms = Forms { default: Form::Native, ..Forms::auto(26) };
    let options = Options { forms, ..Options::default() };
    edited_with(&options, text, |edit| run(edit, [rewrite]).unwrap())
}

/// Applies the rewrite to a fixed point, and returns the resulting text.
pub(crate) fn rewritten(rewrite: &'static Rewrite, text: &str) -> String {
    edited(text, |edit| run(edit, [rewrite]).unwrap()).0
}

/// Applies the rewrite under an assumption, and returns the names of the operators.
pub(crate) fn operators_assuming(
    assumed: Assumption,
    rewrite: &'static Rewrite,
    text: &str,
) -> String {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    graph.assumptions = [assumed].into_iter().collect();
    let mut edit = Editor::new(&mut graph, &mut origins, &Options::default());
    run(&mut edit, [rewrite]).unwrap();
    edit.finish();
    onnx::verify(&graph, None).unwrap();
    let ops = graph.nodes_of(Graph::MAIN).map(|id| graph.node(id).op.name);
    ops.collect::<Vec<_>>().join(" ")
}

/// Asserts that the rewrite does not apply to `text`.
pub(crate) fn stays(rewrite: &'static Rewrite, text: &str) {
    let (after, changed, report) = edited(text, |edit| run(edit, [rewrite]).unwrap());
    same(&after, &normal(text));
    assert_eq!(changed, Changed::No);
    assert_eq!(report.total(), 0);
}

/// Asserts that the pass turns `input` into `output` and is idempotent.
pub(crate) fn passes_to(pass: &Pass, input: &str, output: &str) {
    let (text, changed, _) = edited(input, |edit| {
        let changed = (pass.run)(edit).unwrap();
        assert_eq!((pass.run)(edit).unwrap(), Changed::No);
        changed
    });
    same(&text, &normal(output));
    assert_eq!(changed == Changed::Yes, normal(input) != normal(output));
}

/// Returns the operators that remain after the rewrite is applied to a fixed point.
pub(crate) fn operators(rewrite: &'static Rewrite, text: &str) -> Vec<&'static str> {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    let mut edit = Editor::new(&mut graph, &mut origins, &Options::default());
    run(&mut edit, [rewrite]).unwrap();
    edit.finish();
    graph.all_nodes().into_iter().map(|id| graph.node(id).op.name).collect()
}
