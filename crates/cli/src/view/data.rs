//! The data of the page: tables whose entries refer to each other by position.

use std::borrow::Cow;
use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::attributes::attributes_text;
use super::unfold::Unfolded;
use crate::excerpt::Excerpts;
use crate::model::{Frame, Index, Makers, Origin, type_text};
use crate::profile::{Attributed, Profile, Shares};
use crate::table::count;

/// A profile of the model.
pub(crate) struct Timed<'a> {
    /// The times.
    pub(crate) profile: &'a Profile,
    /// The nodes that they belong to.
    pub(crate) attributed: &'a Attributed<'a>,
    /// By line.
    pub(crate) shares: &'a Shares<'a>,
}

/// How many frames of a stack are kept. Recursion can make stacks very deep.
const DEEPEST: usize = 64;

/// Everything the page shows.
pub(crate) fn data(
    index: &Index<'_>,
    excerpts: &Excerpts<'_>,
    title: &str,
    timed: Option<&Timed<'_>>,
) -> Value {
    let mut tables = Tables::default();
    let makers = Makers::new(index);
    let unfolded = Unfolded::new(index);
    let times = timed.map(|timed| (unfolded.times(timed.attributed), timed.profile.runs));
    let mut nodes = Vec::with_capacity(unfolded.places.len());
    for (position, place) in unfolded.places.iter().enumerate() {
        let node = &index.nodes[place.node];
        let proto = node.proto;
        let own = index.origins_of(place.node, &place.chain);
        let scope = match own.first() {
            Some(origin) if !origin.scope.is_empty() => origin.scope.clone(),
            _ if !place.chain.is_empty() => Cow::Borrowed(""),
            _ => index.scope(place.node),
        };
        let origins = own.iter().flat_map(Origin::possible);
        let origins: Vec<usize> = origins.map(|origin| tables.origin(origin)).collect();
        let inputs = proto.input.iter().map(|name| {
            let maker = unfolded.maker(index, &makers, place, name);
            let maker = maker.map_or(json!(-1), |maker| json!(maker));
            json!([maker, tables.string(name), tables.string(&index.type_of(node.body, name))])
        });
        let inputs: Vec<Value> = inputs.collect();
        let outputs = proto.output.iter().filter(|name| !name.is_empty()).map(|name| {
            json!([tables.string(name), tables.string(&index.type_of(node.body, name))])
        });
        let outputs: Vec<Value> = outputs.collect();
        let mut entry = vec![
            json!(tables.string(&proto.name)),
            json!(tables.string(&node.op())),
            json!(tables.string(&scope)),
            place.owner.map_or(json!(-1), |owner| json!(owner)),
            json!(inputs),
            json!(outputs),
            json!(origins),
            json!(tables.string(&attributes_text(proto))),
        ];
        if let Some((times, runs)) = &times {
            entry.push(json!(times[position] / runs));
        }
        nodes.push(Value::Array(entry));
    }
    let lines: Option<Vec<Value>> = timed.map(|timed| {
        let mut lines: Vec<_> = timed.shares.lines.iter().collect();
        lines.sort_unstable();
        let runs = timed.profile.runs;
        lines
            .iter()
            .map(|(site, ns)| json!([tables.file(site.file, true), site.line, *ns / runs]))
            .collect()
    });
    let profile = timed.map(|timed| {
        let (runs, total) = (timed.profile.runs, timed.profile.total());
        let lost: u64 = timed.shares.lost.values().sum();
        json!({ "runs": runs, "total": total / runs, "unattributed": lost / runs })
    });
    json!({
        "title": title,
        "facts": facts(index),
        "files": tables.files(excerpts),
        "frames": tables.frames,
        "stacks": tables.stacks.list,
        "origins": tables.origins.list,
        "strings": tables.strings.list,
        "nodes": nodes,
        "lines": lines,
        "profile": profile,
    })
}

/// The header above the graph.
fn facts(index: &Index<'_>) -> Vec<String> {
    let opsets = index.model.proto.opset_import.iter().map(|set| match set.domain.as_str() {
        "" => format!("opset {}", set.version),
        domain => format!("{domain} {}", set.version),
    });
    let mut facts = vec![count(index.nodes.len(), "node")];
    facts.extend(opsets);
    for (word, values) in [("in", &index.graph.input), ("out", &index.graph.output)] {
        for value in values {
            let ty = value.r#type.as_ref().map_or("?".to_owned(), type_text);
            facts.push(format!("{word} {}: {ty}", value.name));
        }
    }
    facts
}

/// Entries in the order of their first use.
struct Table<T> {
    list: Vec<T>,
    known: FxHashMap<T, usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { list: Vec::new(), known: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn add(&mut self, entry: T) -> usize {
        if let Some(known) = self.known.get(&entry) {
            return *known;
        }
        self.list.push(entry.clone());
        self.known.insert(entry, self.list.len() - 1);
        self.list.len() - 1
    }
}

/// File, function, line, column, end line, end column, owner.
type FrameEntry = (usize, usize, u32, u32, u32, u32, u8);

#[derive(Default)]
struct Tables {
    strings: Table<String>,
    paths: Table<String>,
    /// Files whose text is shown.
    shown: FxHashSet<usize>,
    frames: Vec<FrameEntry>,
    known_frames: FxHashMap<FrameEntry, usize>,
    stacks: Table<Vec<usize>>,
    /// Site, scope, rule, stack.
    origins: Table<(i64, usize, usize, usize)>,
}

impl Tables {
    fn string(&mut self, text: &str) -> usize {
        if let Some(known) = self.strings.known.get(text) {
            return *known;
        }
        self.strings.add(text.to_owned())
    }

    fn file(&mut self, path: &str, shown: bool) -> usize {
        let file = match self.paths.known.get(path) {
            Some(known) => *known,
            None => self.paths.add(path.to_owned()),
        };
        if shown {
            self.shown.insert(file);
        }
        file
    }

    fn frame(&mut self, frame: &Frame<'_>, is_site: bool) -> usize {
        let file = self.file(frame.file, frame.is_user || is_site);
        let function = self.string(frame.function);
        let span = frame.span;
        let whose = if frame.is_user { 0 } else { 1 + u8::from(frame.is_jax) };
        let (end_line, end_column) = (span.end_line.max(span.line), span.end_column);
        let entry = (file, function, span.line, span.column, end_line, end_column, whose);
        *self.known_frames.entry(entry).or_insert_with(|| {
            self.frames.push(entry);
            self.frames.len() - 1
        })
    }

    fn origin(&mut self, origin: &Origin<'_>) -> usize {
        let site = origin.site.as_ref().map(|frame| self.frame(frame, true));
        let site = site.and_then(|site| i64::try_from(site).ok()).unwrap_or(-1);
        let stack = origin.stack.iter().take(DEEPEST);
        let stack: Vec<usize> = stack.map(|frame| self.frame(frame, false)).collect();
        let stack = self.stacks.add(stack);
        let (scope, rule) = (self.string(&origin.scope), self.string(&origin.rule));
        self.origins.add((site, scope, rule, stack))
    }

    /// Path, text, and a note where there is no text.
    fn files(&self, excerpts: &Excerpts<'_>) -> Vec<Value> {
        let file = |(position, path): (usize, &String)| {
            if !self.shown.contains(&position) {
                return json!([path, null, null]);
            }
            match excerpts.text(path) {
                Ok(text) => json!([path, &*text, null]),
                Err(_) if path.is_empty() => {
                    json!([
                        path,
                        null,
                        "The model records functions and lines, but not their files."
                    ])
                }
                Err(why) => json!([path, null, format!("No source text: {why}.")]),
            }
        };
        self.paths.list.iter().enumerate().map(file).collect()
    }
}
