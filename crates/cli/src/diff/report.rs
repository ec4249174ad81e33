//! The differences as text and as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::{Change, Difference, Kind};
use super::pattern::{ancestors, common, outermost, pattern};
use super::side::Side;
use crate::excerpt::Excerpts;
use crate::style::{Style, Text};

/// What differences are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// The line of Python.
    Line,
    /// The module.
    Module,
}

impl Kind {
    fn mark(self) -> (&'static str, Style) {
        match self {
            Kind::Removed => ("-", Style::Red),
            Kind::Added => ("+", Style::Green),
            Kind::Changed => ("~", Style::Yellow),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Removed => "removed",
            Kind::Added => "added",
            Kind::Changed => "changed",
        }
    }
}

/// A difference, and the modules in which it occurs.
type Alike = (Kind, String, String);

/// Writes the differences between `a` and `b`. One that repeats in many layers is reported once.
pub(crate) fn report(text: &mut Text, a: &Side<'_>, b: &Side<'_>, found: &Difference, by: By) {
    for line in &found.model {
        text.line(line);
    }
    if !found.model.is_empty() {
        text.line("");
    }
    let rest = modules(text, a, b, found);
    let mut groups: BTreeMap<(String, u32), BTreeMap<Alike, Vec<&Change>>> = BTreeMap::new();
    for change in rest {
        let (side, node) = place(a, b, change);
        let (file, line) = side.place(node).unwrap_or((NO_LINE, 0));
        let module = pattern(&side.scopes[node]);
        let (group, other) = match by {
            By::Line => ((file.to_owned(), line), module),
            By::Module => ((module, 0), format!("{file}:{line}")),
        };
        let details: Vec<&str> = change.details.iter().map(|d| d.alike.as_str()).collect();
        let what = format!("{} {}", side.index.nodes[node].op(), details.join("; "));
        groups
            .entry(group)
            .or_default()
            .entry((change.kind, what, other))
            .or_default()
            .push(change);
    }
    let excerpts = Excerpts::new(b.index.model);
    for ((title, line), entries) in groups {
        let named = if title.is_empty() { THE_MODEL } else { &title };
        let at = if line > 0 { format!("{title}:{line}") } else { named.to_owned() };
        text.styled(Style::Cyan, &at);
        let source = if line > 0 { excerpts.line(&title, line) } else { None };
        text.styled(Style::Dim, &source.map(|s| format!("  {}", s.trim())).unwrap_or_default());
        text.line("");
        for changes in entries.values() {
            entry(text, a, b, changes, by);
        }
        text.line("");
    }
    parameters(text, found);
    text.line(&summary(found));
}

const NO_LINE: &str = "(unknown line)";
const THE_MODEL: &str = "the model itself";

/// One line for changes that look alike.
fn entry(text: &mut Text, a: &Side<'_>, b: &Side<'_>, changes: &[&Change], by: By) {
    let Some(first) = changes.first() else { return };
    let (side, node) = place(a, b, first);
    let alone = changes.len() == 1;
    let details: Vec<&str> = first
        .details
        .iter()
        .map(|d| if alone { d.exact.as_str() } else { d.alike.as_str() })
        .collect();
    let (mark, style) = first.kind.mark();
    text.styled(style, &format!("  {mark} {}", side.index.nodes[node].op()));
    text.put(&format!("  {}", details.join("; ")));
    let within = match by {
        By::Line => {
            let modules: Vec<&str> = changes
                .iter()
                .map(|change| place(a, b, change))
                .map(|(side, node)| side.scopes[node].as_str())
                .collect();
            common(&modules)
        }
        By::Module => {
            side.place(node).map_or(NO_LINE.to_owned(), |(f, line)| format!("{f}:{line}"))
        }
    };
    let within = if within.is_empty() { THE_MODEL } else { &within };
    let times = if alone { String::new() } else { format!(" × {}", changes.len()) };
    text.styled(Style::Dim, &format!("  {within}{times}"));
    text.line("");
}

/// Lists the modules that only one model has, and returns the changes that this does not cover.
fn modules<'f>(
    text: &mut Text,
    a: &Side<'_>,
    b: &Side<'_>,
    found: &'f Difference,
) -> Vec<&'f Change> {
    let (known_a, known_b) = (ancestors(&a.scopes), ancestors(&b.scopes));
    let mut whole: BTreeMap<(Kind, &str), usize> = BTreeMap::new();
    let mut rest = Vec::new();
    for change in &found.nodes {
        let (side, node) = place(a, b, change);
        let other = match change.kind {
            Kind::Removed => &known_b,
            Kind::Added => &known_a,
            Kind::Changed => {
                rest.push(change);
                continue;
            }
        };
        match outermost(&side.scopes[node]).find(|scope| !other.contains(scope)) {
            Some(scope) => *whole.entry((change.kind, scope)).or_default() += 1,
            None => rest.push(change),
        }
    }
    if whole.is_empty() {
        return rest;
    }
    let mut alike: BTreeMap<(Kind, String, usize), Vec<&str>> = BTreeMap::new();
    for ((kind, scope), count) in whole {
        alike.entry((kind, pattern(scope), count)).or_default().push(scope);
    }
    text.styled(Style::Bold, "modules");
    text.line("");
    for ((kind, _, count), scopes) in alike {
        let (mark, style) = kind.mark();
        let name = match scopes[..] {
            [one] => one.to_owned(),
            // A whole list would be mostly numbers; its ends say enough.
            [first, .., last] if scopes.len() > 2 => format!("{first} … {last}"),
            _ => scopes.join(", "),
        };
        text.styled(style, &format!("  {mark} {name}"));
        let s = if count == 1 { "" } else { "s" };
        let each = if scopes.len() > 1 { " each" } else { "" };
        text.line(&format!("  {count} node{s}{each}"));
    }
    text.line("");
    rest
}

fn parameters(text: &mut Text, found: &Difference) {
    if found.weights.is_empty() {
        return;
    }
    let mut alike: BTreeMap<(Kind, String, &str), Vec<&str>> = BTreeMap::new();
    for weight in &found.weights {
        let key = (weight.kind, pattern(&weight.name), weight.detail.as_str());
        alike.entry(key).or_default().push(&weight.name);
    }
    text.styled(Style::Bold, "parameters");
    text.line("");
    for ((kind, _, detail), names) in alike {
        let (mark, style) = kind.mark();
        text.styled(style, &format!("  {mark} {}", common(&names)));
        let times = if names.len() > 1 { format!(" × {}", names.len()) } else { String::new() };
        text.line(&format!("  {detail}{times}"));
    }
    text.line("");
}

/// The node to show and its model: the new one, if it still exists.
fn place<'s, 'm>(a: &'s Side<'m>, b: &'s Side<'m>, change: &Change) -> (&'s Side<'m>, usize) {
    match (change.a, change.b) {
        (_, Some(node)) => (b, node),
        (Some(node), None) => (a, node),
        (None, None) => (a, 0),
    }
}

fn summary(found: &Difference) -> String {
    if found.is_empty() {
        return "no differences".to_owned();
    }
    let count = |kinds: &mut dyn Iterator<Item = Kind>, what: &str| {
        let mut counts = [0usize; 3];
        kinds.for_each(|kind| counts[kind as usize] += 1);
        let words = [Kind::Added, Kind::Removed, Kind::Changed].map(|kind| {
            let count = counts[kind as usize];
            (count > 0).then(|| format!("{count} {}", kind.word()))
        });
        let words: Vec<String> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| format!("{what}: {}", words.join(", ")))
    };
    let parts = [
        count(&mut found.nodes.iter().map(|change| change.kind), "nodes"),
        count(&mut found.weights.iter().map(|weight| weight.kind), "parameters"),
        (!found.model.is_empty()).then(|| "the model's interface or version changed".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The differences as JSON.
pub(crate) fn value(a: &Side<'_>, b: &Side<'_>, found: &Difference) -> Value {
    let node = |side: &Side<'_>, node: Option<usize>| {
        let node = node?;
        let site = side.origins[node].as_ref().and_then(|origin| origin.site.as_ref());
        Some(json!({
            "name": side.index.nodes[node].proto.name,
            "module": side.scopes[node],
            "result": side.index.results(&side.index.nodes[node]),
            "file": site.map(|site| site.file).filter(|file| !file.is_empty()),
            "function": site.map(|site| site.function),
            "line": site.map(|site| site.span.line),
        }))
    };
    let nodes: Vec<Value> = found
        .nodes
        .iter()
        .map(|change| {
            let (side, own) = place(a, b, change);
            let details = change.details.iter().filter(|_| change.kind == Kind::Changed);
            let details: Vec<&str> = details.map(|detail| detail.exact.as_str()).collect();
            json!({
                "change": change.kind.word(),
                "op": side.index.nodes[own].op(),
                "a": node(a, change.a),
                "b": node(b, change.b),
                "details": details,
            })
        })
        .collect();
    let weights: Vec<Value> = found
        .weights
        .iter()
        .map(|w| json!({ "change": w.kind.word(), "name": w.name, "detail": w.detail }))
        .collect();
    json!({
        "same": found.is_empty(),
        "model": found.model,
        "nodes": nodes,
        "parameters": weights,
        "remarks": found.remarks,
    })
}
