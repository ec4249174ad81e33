//! Tables whose entries refer to each other by position.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::editor::Editor;
use crate::excerpt::Excerpts;
use crate::model::{Frame, FrameChoice, Origin};

/// The maximum number of frames kept per stack. Recursion can make stacks very deep.
const DEEPEST: usize = 64;

/// Entries in the order of their first use.
pub(super) struct Table<T> {
    pub(super) list: Vec<T>,
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

/// A source file. If only functions are known, each function counts as a file.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SourceFile {
    /// The file, or an empty string.
    path: String,
    /// The function, if the file is unknown.
    function: String,
    /// `true` for a file of the other model with a different text.
    is_other: bool,
}

#[derive(Default)]
pub(super) struct Tables {
    pub(super) strings: Table<String>,
    sources: Table<SourceFile>,
    /// Files whose text is shown.
    shown: FxHashSet<usize>,
    pub(super) frames: Vec<FrameEntry>,
    known_frames: FxHashMap<FrameEntry, usize>,
    pub(super) stacks: Table<Vec<usize>>,
    /// Site, scope, rule, stack.
    pub(super) origins: Table<(i64, usize, usize, usize)>,
    /// Files whose text differs in the other model.
    pub(super) others: FxHashSet<String>,
    /// The lines of libraries that are shown.
    choice: FrameChoice,
    /// `true` while entries of the other model are added.
    pub(super) is_other: bool,
}

impl Tables {
    /// Creates empty tables for a page that shows the chosen lines of libraries.
    pub(super) fn new(choice: FrameChoice) -> Self {
        Self { choice, ..Self::default() }
    }

    pub(super) fn string(&mut self, text: &str) -> usize {
        if let Some(known) = self.strings.known.get(text) {
            return *known;
        }
        self.strings.add(text.to_owned())
    }

    pub(super) fn file(&mut self, path: &str, function: &str, shown: bool) -> usize {
        let source = SourceFile {
            path: path.to_owned(),
            function: if path.is_empty() { function.to_owned() } else { String::new() },
            is_other: self.is_other && self.others.contains(path),
        };
        let file = self.sources.add(source);
        if shown {
            self.shown.insert(file);
        }
        file
    }

    fn frame(&mut self, frame: &Frame<'_>, is_site: bool) -> usize {
        let file = self.file(frame.file, frame.function, frame.is_user || is_site);
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

    pub(super) fn origin(&mut self, origin: &Origin<'_>) -> usize {
        let site = origin.site.as_ref().map(|frame| self.frame(frame, true));
        let site = site.and_then(|site| i64::try_from(site).ok()).unwrap_or(-1);
        let stack = origin.stack.iter().take(DEEPEST);
        let stack: Vec<usize> = stack.map(|frame| self.frame(frame, false)).collect();
        let stack = self.stacks.add(stack);
        let choice = std::mem::take(&mut self.choice);
        for frame in choice.below(origin) {
            self.frame(frame, true);
        }
        self.choice = choice;
        let (scope, rule) = (self.string(&origin.scope), self.string(&origin.rule));
        self.origins.add((site, scope, rule, stack))
    }

    /// Builds the entry of each file: label, path, text, a note if the text is missing, and the
    /// editor's path.
    pub(super) fn files(
        &self,
        excerpts: &Excerpts<'_>,
        other: Option<&(String, &Excerpts<'_>)>,
        editor: &Editor,
    ) -> Vec<Value> {
        let file = |(position, source): (usize, &SourceFile)| {
            let SourceFile { path, function, is_other } = source;
            if path.is_empty() {
                let note = "The model records functions and lines, but not their files.";
                return json!([function, "", null, note, null]);
            }
            let (label, excerpts) = match other {
                Some((name, excerpts)) if *is_other => (format!("{path} ({name})"), *excerpts),
                _ => (path.clone(), excerpts),
            };
            if !self.shown.contains(&position) {
                return json!([label, path, null, null, null]);
            }
            let place = excerpts.location(path).and_then(|place| editor.place(&place));
            match excerpts.text(path) {
                Ok(text) => json!([label, path, &*text, null, place]),
                Err(why) => json!([label, path, null, format!("No source text: {why}."), null]),
            }
        };
        self.sources.list.iter().enumerate().map(file).collect()
    }
}
