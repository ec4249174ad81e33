//! The description of one node: its operator, operands, results and origin.

use std::borrow::Cow;

use provenance::SourceLocation;
use rustc_hash::FxHashSet;

use crate::excerpt::Excerpts;
use crate::model::{Frame, FrameChoice, Index, Origin};
use crate::style::{Style, Text};
use crate::table::count;

/// The maximum number of sources shown per node.
const SOURCES: usize = 4;

/// The maximum number of lines of libraries shown per node.
const LIBRARY: usize = 12;

/// The maximum number of characters shown of a constant's value.
const CONSTANT: usize = 32;

/// Writes the name, operator, module, rule, operands and results of a node, and the node that
/// contains it.
pub(crate) fn facts(text: &mut Text, index: &Index<'_>, node: usize, origin: &Origin<'_>) {
    let (proto, body) = (index.nodes[node].proto, index.nodes[node].body);
    let value = |name: &String| match name.as_str() {
        "" => "(omitted)".to_owned(),
        name => {
            let ty = index.type_of(body, name);
            let constant = index.tensor(body, name).map(|tensor| {
                let few = onnx_file::elements(tensor).filter(|text| text.len() <= CONSTANT);
                few.map_or(" (parameter)".to_owned(), |few| format!(" = {few}"))
            });
            format!("{name}: {ty}{}", constant.unwrap_or_default())
        }
    };
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let scope = match &*origin.scope {
        "" => index.scope(node),
        // If the call to a function is unknown, its module is ambiguous.
        scope if origin.others.is_empty() => Cow::Borrowed(scope),
        _ => index.scope(node),
    };
    let inside = index.owner(node).map(|owner| index.nodes[owner].proto.name.clone());
    let called = index.function(node).map(|f| format!("function {}.{}", f.domain, f.name));
    let name = if proto.name.is_empty() { "(no name)" } else { &proto.name };
    let groups: [(&str, Vec<String>); 6] = [
        ("node", vec![format!("{name} = {}", index.nodes[node].op())]),
        ("module", some(&scope).into_iter().collect()),
        ("inside", inside.into_iter().chain(called).collect()),
        ("inputs", proto.input.iter().map(value).collect()),
        ("outputs", proto.output.iter().filter(|name| !name.is_empty()).map(value).collect()),
        ("rule", some(&origin.rule).into_iter().collect()),
    ];
    for (title, lines) in groups {
        for (i, line) in lines.iter().enumerate() {
            fact(text, if i == 0 { title } else { "" }, line);
        }
    }
}

/// Writes one property of a node on a line.
pub(crate) fn fact(text: &mut Text, title: &str, line: &str) {
    text.styled(Style::Dim, &format!("  {title:<8} "));
    text.line(line);
}

/// Writes the user's line of every source, underlined.
pub(crate) fn sites(text: &mut Text, excerpts: &Excerpts<'_>, origins: &[Origin<'_>]) {
    let mut notes: Vec<String> = Vec::new();
    let mut shown: Vec<&Frame<'_>> = Vec::new();
    for (i, origin) in origins.iter().enumerate() {
        let (several, is_call) = (origin.sites().len(), origin.has_other_calls());
        for (which, origin) in origin.possible().enumerate() {
            let Some(site) = &origin.site else { continue };
            if shown.contains(&site) || shown.len() >= SOURCES {
                continue;
            }
            shown.push(site);
            let label = match (i, which) {
                (0, 0) if several > 1 && is_call => {
                    Some(format!("one of {several} calls to the function"))
                }
                (0, 0) if several > 1 => Some(format!("one of {several} possible lines")),
                (0, 0) => None,
                (_, 0) if origin.is_idle => Some("has no effect here".to_owned()),
                (_, 0) => Some("merged into the same node".to_owned()),
                _ if is_call => Some("or this call".to_owned()),
                _ => Some("or this line".to_owned()),
            };
            frame(text, excerpts, site, &origin.scope, label);
            let note = match excerpts.text(site.file) {
                _ if site.file.is_empty() => None,
                Err(why) => Some(format!("no source line: {why}")),
                Ok(_) => excerpts.doubt(site.file),
            };
            notes.extend(note.filter(|note| !notes.contains(note)));
        }
    }
    let sites = origins.iter().flat_map(Origin::possible).filter_map(|o| o.site.as_ref());
    let sites: FxHashSet<&Frame<'_>> = sites.collect();
    let hidden = sites.iter().filter(|site| !shown.contains(*site)).count();
    if hidden > 0 {
        text.line(&format!("  … and {}", count(hidden, "more source")));
    }
    for note in notes {
        text.line(&format!("  note: {note}"));
    }
}

/// Writes the chosen lines of libraries that the user's line calls, the innermost last.
pub(crate) fn library(
    text: &mut Text,
    excerpts: &Excerpts<'_>,
    origin: &Origin<'_>,
    choice: &FrameChoice,
) {
    let frames = choice.below(origin);
    let hidden = frames.len().saturating_sub(LIBRARY);
    let title = match hidden {
        0 => "  your line calls".to_owned(),
        _ => format!("  your line calls, through {}", count(hidden, "more line")),
    };
    stack(text, excerpts, &title, &frames[hidden..]);
}

/// Writes the callers of the user's line, innermost first. JAX's own frames are included only if
/// `all` is set.
pub(crate) fn callers(text: &mut Text, excerpts: &Excerpts<'_>, origin: &Origin<'_>, all: bool) {
    let site = origin.stack.iter().position(|frame| Some(frame) == origin.site.as_ref());
    let frames = if all { &origin.stack[..] } else { &origin.stack[site.map_or(0, |at| at + 1)..] };
    let frames: Vec<_> = frames.iter().filter(|frame| all || !frame.is_jax).collect();
    let title = if all { "  the whole stack, innermost first:" } else { "  called from" };
    stack(text, excerpts, title, &frames);
    let others = distinct_calls(origin);
    for (inside, other) in others.iter().take(SOURCES) {
        // A site that is itself a caller is already shown.
        let at = other.stack.iter().position(|frame| Some(frame) == other.site.as_ref());
        let inside = if all { *inside } else { at.map_or(*inside, |at| (*inside).max(at + 1)) };
        let frames = other.stack[inside..].iter();
        let frames: Vec<_> = frames.filter(|frame| all || !frame.is_jax).collect();
        stack(text, excerpts, "  or from", &frames);
    }
    let hidden = others.len().saturating_sub(SOURCES);
    if hidden > 0 {
        text.line(&format!("  … or from {}", count(hidden, "more call")));
    }
}

/// Returns the alternative calls, with the number of frames that each shares with the first. Calls
/// with equal stacks are merged.
fn distinct_calls<'o, 'm>(origin: &'o Origin<'m>) -> Vec<(usize, &'o Origin<'m>)> {
    let mut known: Vec<&[Frame<'m>]> = vec![&origin.stack];
    let mut calls = Vec::new();
    for other in origin.others.iter().filter(|_| origin.has_other_calls()) {
        if !known.contains(&other.stack.as_slice()) {
            known.push(&other.stack);
            calls.push((other.shared(origin), other));
        }
    }
    calls
}

fn stack(text: &mut Text, excerpts: &Excerpts<'_>, title: &str, frames: &[&Frame<'_>]) {
    if !frames.is_empty() {
        text.styled_line(Style::Dim, title);
    }
    for frame in frames {
        let line = excerpts.line(frame.file, frame.span.line).filter(|_| !frame.is_jax);
        let style = if frame.is_user { Style::Cyan } else { Style::Dim };
        let place = format!("    {}", frame.place());
        text.styled(style, &place);
        text.styled(Style::Dim, &format!(" in {}", frame.function));
        text.line(&line.map(|line| format!("  {}", line.trim())).unwrap_or_default());
    }
}

fn frame(
    text: &mut Text,
    excerpts: &Excerpts<'_>,
    frame: &Frame<'_>,
    scope: &str,
    label: Option<String>,
) {
    if frame.file.is_empty() {
        // Minimal metadata has the function and the line, but not the file.
        let scope = if scope.is_empty() { String::new() } else { format!(" ({scope})") };
        text.styled(Style::Dim, "  --> ");
        return text.line(&format!("line {} of {}{scope}", frame.span.line, frame.function));
    }
    let place = SourceLocation {
        label,
        file: frame.file.to_owned(),
        path: frame.file.to_owned(),
        function: frame.function.to_owned(),
        scope: scope.to_owned(),
        span: frame.span,
    };
    paint(text, &place.render(&|path, number| excerpts.line(path, number)));
}

/// Appends the lines of a location, with the location and the markers in colour.
fn paint(text: &mut Text, rendered: &str) {
    for line in rendered.lines() {
        let marks = line.split_once("| ").filter(|(_, marks)| {
            marks.contains('^') && marks.chars().all(|c| matches!(c, '^' | ' ' | '\t'))
        });
        if let Some((margin, marks)) = marks {
            text.styled(Style::Dim, &format!("{margin}| "));
            text.styled(Style::Red, marks);
        } else if let Some(place) = line.strip_prefix("  --> ") {
            text.styled(Style::Dim, "  --> ");
            text.styled(Style::Cyan, place);
        } else if let Some((margin, source)) = line.split_once(" | ") {
            text.styled(Style::Dim, &format!("{margin} | "));
            text.put(source);
        } else {
            text.put(line);
        }
        text.line("");
    }
}
