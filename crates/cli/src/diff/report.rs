//! The text and JSON output of `diff`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::{Change, ChangeKind, Difference};
use super::pattern::{ancestors, common, pattern};
use super::side::Side;
use crate::excerpt::Excerpts;
use crate::model::enclosing;
use crate::style::{Style, Text};

/// The grouping of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// The line of Python.
    Line,
    /// The module.
    Module,
}

impl ChangeKind {
    fn mark(self) -> (&'static str, Style) {
        match self {
            ChangeKind::Removed => ("-", Style::Red),
            ChangeKind::Added => ("+", Style::Green),
            ChangeKind::Changed => ("~", Style::Yellow),
        }
    }

    /// Returns the word for the kind.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ChangeKind::Removed => "removed",
            ChangeKind::Added => "added",
            ChangeKind::Changed => "changed",
        }
    }
}

/// The key of differences that are merged across layers: the kind, the description and the other
/// location.
type Alike = (ChangeKind, String, String);

/// The differences, merged: one that repeats in many layers is a single entry.
#[derive(Debug)]
pub(crate) struct Report<'f> {
    /// Differences in opsets, inputs and outputs.
    pub(crate) model: &'f [String],
    /// Modules that only one model has, with their node counts.
    pub(crate) modules: Vec<Line>,
    /// Differences in nodes, grouped by line or by module.
    pub(crate) groups: Vec<Group<'f>>,
    pub(crate) parameters: Vec<Line>,
    /// A summary of the differences.
    pub(crate) summary: String,
}

/// One line of a report.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) kind: ChangeKind,
    pub(crate) name: String,
    pub(crate) detail: String,
}

/// The differences at one line, or in one module.
#[derive(Debug)]
pub(crate) struct Group<'f> {
    /// The line or the module.
    pub(crate) title: String,
    /// The file and the line, if they are known.
    pub(crate) place: Option<(String, u32)>,
    pub(crate) entries: Vec<Entry<'f>>,
}

/// Nodes that differ in the same way.
#[derive(Debug)]
pub(crate) struct Entry<'f> {
    pub(crate) kind: ChangeKind,
    pub(crate) op: String,
    pub(crate) details: String,
    /// The modules or lines of the nodes.
    pub(crate) within: String,
    /// The nodes that differ in this way.
    pub(crate) changes: Vec<&'f Change>,
}

/// Merges the differences between `a` and `b` into a report.
pub(crate) fn gather<'f>(a: &Side<'_>, b: &Side<'_>, found: &'f Difference, by: By) -> Report<'f> {
    let (modules, rest) = modules(a, b, found);
    let mut alike: BTreeMap<(String, u32), BTreeMap<Alike, Vec<&Change>>> = BTreeMap::new();
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
        let entries = alike.entry(group).or_default();
        entries.entry((change.kind, what, other)).or_default().push(change);
    }
    let groups = alike.into_iter().map(|((name, line), entries)| {
        let title = match (name.as_str(), line) {
            ("", _) => THE_MODEL.to_owned(),
            (name, 0) => name.to_owned(),
            (name, line) => format!("{name}:{line}"),
        };
        let entries = entries.into_values().filter_map(|changes| entry(a, b, changes, by));
        Group { title, place: (line > 0).then_some((name, line)), entries: entries.collect() }
    });
    let groups = groups.collect();
    let parameters = parameters(found);
    Report { model: &found.model, modules, groups, parameters, summary: summary(found) }
}

/// Writes the differences between `a` and `b`.
pub(crate) fn report(text: &mut Text, a: &Side<'_>, b: &Side<'_>, found: &Difference, by: By) {
    let report = gather(a, b, found, by);
    for line in report.model {
        text.line(line);
    }
    if !report.model.is_empty() {
        text.line("");
    }
    lines(text, "modules", &report.modules);
    let excerpts = Excerpts::new(b.index.model);
    for Group { title, place, entries } in &report.groups {
        text.styled(Style::Cyan, title);
        let source = place.as_ref().and_then(|(file, line)| excerpts.line(file, *line));
        text.styled_line(
            Style::Dim,
            &source.map(|s| format!("  {}", s.trim())).unwrap_or_default(),
        );
        for entry in entries {
            let (mark, style) = entry.kind.mark();
            text.styled(style, &format!("  {mark} {}", entry.op));
            text.put(&format!("  {}", entry.details));
            let count = entry.changes.len();
            let times = if count == 1 { String::new() } else { format!(" × {count}") };
            text.styled_line(Style::Dim, &format!("  {}{times}", entry.within));
        }
        text.line("");
    }
    lines(text, "parameters", &report.parameters);
    text.line(&report.summary);
}

fn lines(text: &mut Text, title: &str, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    text.styled_line(Style::Bold, title);
    for Line { kind, name, detail } in lines {
        let (mark, style) = kind.mark();
        text.styled(style, &format!("  {mark} {name}"));
        text.line(&format!("  {detail}"));
    }
    text.line("");
}

const NO_LINE: &str = "(unknown line)";
const THE_MODEL: &str = "the model itself";

/// Merges similar changes into one entry.
fn entry<'f>(a: &Side<'_>, b: &Side<'_>, changes: Vec<&'f Change>, by: By) -> Option<Entry<'f>> {
    let first = *changes.first()?;
    let (side, node) = place(a, b, first);
    let alone = changes.len() == 1;
    let details = first.details.iter();
    let details: Vec<&str> =
        details.map(|d| if alone { d.exact.as_str() } else { d.alike.as_str() }).collect();
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
    let within = if within.is_empty() { THE_MODEL.to_owned() } else { within };
    let op = side.index.nodes[node].op();
    Some(Entry { kind: first.kind, op, details: details.join("; "), within, changes })
}

/// Lists the modules that only one model has, and returns the remaining changes.
fn modules<'f>(a: &Side<'_>, b: &Side<'_>, found: &'f Difference) -> (Vec<Line>, Vec<&'f Change>) {
    let (known_a, known_b) = (ancestors(&a.scopes), ancestors(&b.scopes));
    let mut whole: BTreeMap<(ChangeKind, &str), usize> = BTreeMap::new();
    let mut rest = Vec::new();
    for change in &found.nodes {
        let (side, node) = place(a, b, change);
        let other = match change.kind {
            ChangeKind::Removed => &known_b,
            ChangeKind::Added => &known_a,
            ChangeKind::Changed => {
                rest.push(change);
                continue;
            }
        };
        match enclosing(&side.scopes[node]).find(|scope| !other.contains(scope)) {
            Some(scope) => *whole.entry((change.kind, scope)).or_default() += 1,
            None => rest.push(change),
        }
    }
    let mut alike: BTreeMap<(ChangeKind, String, usize), Vec<&str>> = BTreeMap::new();
    for ((kind, scope), count) in whole {
        alike.entry((kind, pattern(scope), count)).or_default().push(scope);
    }
    let line = |((kind, _, count), scopes): ((ChangeKind, String, usize), Vec<&str>)| {
        let name = match scopes[..] {
            [one] => one.to_owned(),
            // A full list would be mostly numbers, so only its ends are shown.
            [first, .., last] if scopes.len() > 2 => format!("{first} … {last}"),
            _ => scopes.join(", "),
        };
        let s = if count == 1 { "" } else { "s" };
        let each = if scopes.len() > 1 { " each" } else { "" };
        Line { kind, name, detail: format!("{count} node{s}{each}") }
    };
    (alike.into_iter().map(line).collect(), rest)
}

fn parameters(found: &Difference) -> Vec<Line> {
    let mut alike: BTreeMap<(ChangeKind, String, &str), Vec<&str>> = BTreeMap::new();
    for weight in &found.weights {
        let key = (weight.kind, pattern(&weight.name), weight.detail.as_str());
        alike.entry(key).or_default().push(&weight.name);
    }
    let line = |((kind, _, detail), names): ((ChangeKind, String, &str), Vec<&str>)| {
        let times = if names.len() > 1 { format!(" × {}", names.len()) } else { String::new() };
        Line { kind, name: common(&names), detail: format!("{detail}{times}") }
    };
    alike.into_iter().map(line).collect()
}

/// Returns the node to show and its model: the new node, if it still exists.
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
    let count = |kinds: &mut dyn Iterator<Item = ChangeKind>, what: &str| {
        let mut counts = [0usize; 3];
        kinds.for_each(|kind| counts[kind as usize] += 1);
        let words = [ChangeKind::Added, ChangeKind::Removed, ChangeKind::Changed].map(|kind| {
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

/// Builds the differences as JSON.
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
            let details = change.details.iter().filter(|_| change.kind == ChangeKind::Changed);
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
