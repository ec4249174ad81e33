//! Tables whose entries refer to each other by position.

use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use super::comparison::Other;
use super::editor::Editor;
use crate::FxIndexSet;
use crate::excerpt::Excerpts;
use crate::model::{Frame, FrameChoice, Origin};

/// The maximum number of frames kept per stack. Recursion can make stacks very deep.
const DEEPEST: usize = 64;

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
    pub(super) strings: FxIndexSet<String>,
    sources: FxIndexSet<SourceFile>,
    /// Files whose text is shown.
    shown: FxHashSet<usize>,
    pub(super) frames: FxIndexSet<FrameEntry>,
    pub(super) stacks: FxIndexSet<Vec<usize>>,
    /// Site, scope, rule, stack.
    pub(super) origins: FxIndexSet<(i64, usize, usize, usize)>,
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
        let known = self.strings.get_index_of(text);
        known.unwrap_or_else(|| self.strings.insert_full(text.to_owned()).0)
    }

    pub(super) fn file(&mut self, path: &str, function: &str, shown: bool) -> usize {
        let source = SourceFile {
            path: path.to_owned(),
            function: if path.is_empty() { function.to_owned() } else { String::new() },
            is_other: self.is_other && self.others.contains(path),
        };
        let file = self.sources.insert_full(source).0;
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
        self.frames.insert_full(entry).0
    }

    pub(super) fn origin(&mut self, origin: &Origin<'_>) -> usize {
        let site = origin.site.as_ref().map(|frame| self.frame(frame, true));
        let site = site.and_then(|site| i64::try_from(site).ok()).unwrap_or(-1);
        let stack = origin.stack.iter().take(DEEPEST);
        let stack: Vec<usize> = stack.map(|frame| self.frame(frame, false)).collect();
        let stack = self.stacks.insert_full(stack).0;
        let choice = std::mem::take(&mut self.choice);
        for frame in choice.below(origin) {
            self.frame(frame, true);
        }
        self.choice = choice;
        let (scope, rule) = (self.string(&origin.scope), self.string(&origin.rule));
        self.origins.insert_full((site, scope, rule, stack)).0
    }

    /// Builds the entry of each file: label, path, text, a note if the text is missing, and the
    /// editor's path.
    pub(super) fn files(
        &self,
        excerpts: &Excerpts<'_>,
        other: Option<&Other<'_>>,
        editor: &Editor,
    ) -> Vec<Value> {
        let file = |(position, source): (usize, &SourceFile)| {
            let SourceFile { path, function, is_other } = source;
            if path.is_empty() {
                let note = "The model records functions and lines, but not their files.";
                return json!([function, "", null, note, null]);
            }
            let (label, excerpts) = match other {
                Some(Other { name, excerpts, .. }) if *is_other => {
                    (format!("{path} ({name})"), excerpts)
                }
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
        self.sources.iter().enumerate().map(file).collect()
    }
}
