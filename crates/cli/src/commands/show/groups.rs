//! Nodes grouped by line, operator or rule.

use super::{By, row};
use crate::FxIndexMap;
use crate::excerpt::Excerpts;
use crate::model::{Frame, FrameChoice, Frames, Index};

/// Returns the nodes by operator or rule, the largest group first.
pub(super) fn rows(index: &Index<'_>, by: By) -> Vec<Vec<String>> {
    let mut all = Group::default();
    for position in 0..index.nodes.len() {
        let key = key(index, position, by);
        let heading = if key.is_empty() { UNKNOWN.to_owned() } else { key.clone() };
        all.enter(key, || heading).nodes.push(position);
    }
    all.inner.sort_by(|_, a, _, b| b.nodes.len().cmp(&a.nodes.len()));
    all.rows(index)
}

/// Returns the nodes by line in the order of the program. Below a line are the chosen lines of
/// libraries that it calls.
pub(super) fn lines(index: &Index<'_>, choice: &FrameChoice) -> Vec<Vec<String>> {
    let excerpts = Excerpts::new(index.model);
    let mut all = Group::default();
    for position in 0..index.nodes.len() {
        let origin = index.origin(position).unwrap_or_default();
        let place = origin.place().unwrap_or_default();
        let mut group = all.enter(place.clone(), || match &origin.site {
            Some(site) if !place.is_empty() => heading(&excerpts, site, &place),
            _ => UNKNOWN.to_owned(),
        });
        for frame in choice.below(&origin) {
            let place = frame.place();
            group =
                group.enter(place.clone(), || format!("→ {}", heading(&excerpts, frame, &place)));
        }
        group.nodes.push(position);
    }
    all.rows(index)
}

/// The heading of nodes whose line is not known.
const UNKNOWN: &str = "(unknown)";

/// Nodes under a heading, and the groups inside it in order of first appearance.
#[derive(Default)]
struct Group {
    heading: String,
    nodes: Vec<usize>,
    inner: FxIndexMap<String, Group>,
}

impl Group {
    /// Returns the inner group for a key.
    fn enter(&mut self, key: String, heading: impl FnOnce() -> String) -> &mut Group {
        let new = || Group { heading: heading(), ..Group::default() };
        self.inner.entry(key).or_insert_with(new)
    }

    fn len(&self) -> usize {
        self.nodes.len() + self.inner.values().map(Group::len).sum::<usize>()
    }

    /// Returns the rows of the inner groups.
    fn rows(&self, index: &Index<'_>) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        // The heading names the line, so that rows need not repeat the library's.
        let choice = FrameChoice::from(Frames::User);
        self.inner.values().for_each(|group| group.add(index, &choice, 0, &mut rows));
        rows
    }

    fn add(
        &self,
        index: &Index<'_>,
        choice: &FrameChoice,
        depth: usize,
        rows: &mut Vec<Vec<String>>,
    ) {
        let indent = "  ".repeat(depth);
        rows.push(vec![format!("{indent}{} · {}", self.heading, self.len())]);
        for node in &self.nodes {
            let name = &index.nodes[*node].proto.name;
            rows.push(row(index, *node, format!("{indent}  {name}"), choice));
        }
        self.inner.values().for_each(|group| group.add(index, choice, depth + 1, rows));
    }
}

fn key(index: &Index<'_>, node: usize, by: By) -> String {
    let origin = || index.origin(node).unwrap_or_default();
    match by {
        By::Op => index.nodes[node].op(),
        By::Line => origin().place().unwrap_or_default(),
        // A rule's line is too fine-grained here.
        By::Rule => origin().rule.rsplit_once(':').map_or("", |(rule, _)| rule).to_owned(),
        By::Module => index.scope(node).into_owned(),
    }
}

/// Returns the place of a frame, with its function and its source line.
fn heading(excerpts: &Excerpts<'_>, frame: &Frame<'_>, place: &str) -> String {
    match excerpts.line(frame.file, frame.span.line) {
        Some(line) => format!("{place} in {}: {}", frame.function, line.trim()),
        None => format!("{place} in {}", frame.function),
    }
}
