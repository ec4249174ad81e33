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

#[cfg(test)]
mod tests {
    use onnx_file::proto::ModelProto;
    use provenance::Span;

    use super::*;
    use crate::model::Model;

    fn frame(function: &'static str, line: u32, is_user: bool) -> Frame<'static> {
        let span = Span { line, ..Span::default() };
        Frame { file: "m.py", function, span, is_user, is_jax: false }
    }

    /// Returns an origin whose innermost frame is in a library.
    fn origin(inner: u32, line: u32) -> Origin<'static> {
        let site = frame("main", line, true);
        Origin {
            site: Some(site),
            stack: vec![frame("dot", inner, false), site],
            ..Origin::default()
        }
    }

    fn written(write: impl FnOnce(&mut Text, &Excerpts<'_>)) -> String {
        let proto = ModelProto::default();
        let model = Model { path: None, proto, map: None, map_path: None, remarks: vec![] };
        let mut text = Text::new(false);
        write(&mut text, &Excerpts::new(&model));
        text.as_str().to_owned()
    }

    fn shown(origins: &[Origin<'_>]) -> Vec<String> {
        let text = written(|text, excerpts| sites(text, excerpts, origins));
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    const MISSING: &str = "note: no source line: `m.py` was not found";

    #[test]
    fn lines_say_how_certain_they_are() {
        let with = |other| Origin { others: vec![other], ..origin(1, 7) };
        assert_eq!(shown(&[origin(1, 7)]), ["--> m.py:7 in main", MISSING]);
        assert_eq!(
            shown(&[with(origin(1, 9))]),
            [
                "--> m.py:7 in main: one of 2 calls to the function",
                "--> m.py:9 in main: or this call",
                MISSING
            ]
        );
        assert_eq!(
            shown(&[with(origin(2, 9))]),
            [
                "--> m.py:7 in main: one of 2 possible lines",
                "--> m.py:9 in main: or this line",
                MISSING
            ]
        );
        assert_eq!(shown(&[with(origin(2, 7))]), ["--> m.py:7 in main", MISSING]);
        let idle = Origin { is_idle: true, ..origin(1, 9) };
        assert_eq!(
            shown(&[origin(1, 7), idle, origin(1, 8)])[1..3],
            [
                "--> m.py:9 in main: has no effect here",
                "--> m.py:8 in main: merged into the same node"
            ]
        );
    }

    #[test]
    fn few_of_many_lines_are_shown() {
        let many = |count: u32| (0..count).map(|line| origin(1, line)).collect::<Vec<_>>();
        assert_eq!(shown(&many(4)).len(), 5);
        assert_eq!(shown(&many(5))[4..], ["… and 1 more source", MISSING]);
        assert_eq!(shown(&many(6))[4], "… and 2 more sources");
    }

    #[test]
    fn callers_are_the_frames_around_the_line() {
        let outer = frame("run", 20, true);
        let with = |line| {
            let mut origin = origin(1, line);
            origin.stack.push(outer);
            origin
        };
        let own = Origin { others: vec![with(9), with(7)], ..with(7) };
        let lines = |all| {
            let text = written(|text, excerpts| callers(text, excerpts, &own, all));
            text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        };
        let expected = ["called from", "m.py:20 in run", "or from", "m.py:20 in run"];
        assert_eq!(lines(false), expected, "the same stack is shown once");
        assert_eq!(
            lines(true),
            [
                "the whole stack, innermost first:",
                "m.py:1 in dot",
                "m.py:7 in main",
                "m.py:20 in run",
                "or from",
                "m.py:9 in main",
                "m.py:20 in run"
            ]
        );
    }
}
