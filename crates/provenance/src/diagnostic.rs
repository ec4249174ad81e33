//! Diagnostics as data, and their rendering.

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{Frame, Span};

/// A location in the user's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// A description of the event at this location, for diagnostics with several locations.
    pub label: Option<String>,
    /// The file as displayed.
    pub file: String,
    /// The path to open.
    pub path: String,
    /// The function.
    pub function: String,
    /// The path of the module instance; may be empty.
    pub scope: String,
    /// The source range of the expression; if its end column is 0, only the line is known.
    pub span: Span,
}

impl SourceLocation {
    /// Creates the location of a frame inside the module `scope`.
    pub fn new(frame: &Frame, scope: &str) -> Self {
        Self {
            label: None,
            file: frame.file.to_string(),
            path: frame.path.to_string(),
            function: frame.function.to_string(),
            scope: scope.to_owned(),
            span: frame.span,
        }
    }
}

/// A message for the user: the problem, its locations and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable kebab-case code.
    pub code: &'static str,
    /// The problem.
    pub message: String,
    /// The locations in the user's program, as far as they are known.
    pub places: Vec<SourceLocation>,
    /// The suggested remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Renders the whole text, with source excerpts from `line(path, number)`.
    pub fn render(&self, line: &dyn Fn(&str, u32) -> Option<String>) -> String {
        let mut text = format!("[{}] {}", self.code, self.message);
        for place in &self.places {
            text.push('\n');
            text.push_str(&place.render(line));
        }
        if let Some(help) = &self.help {
            text.push_str("\n  help: ");
            text.push_str(help);
        }
        text
    }

    /// Renders only the locations, one paragraph each.
    pub fn render_places(&self, line: &dyn Fn(&str, u32) -> Option<String>) -> String {
        self.places.iter().map(|place| place.render(line)).collect::<Vec<_>>().join("\n")
    }
}

impl SourceLocation {
    /// Renders the location, with the source excerpt from `line(path, number)`.
    pub fn render(&self, line: &dyn Fn(&str, u32) -> Option<String>) -> String {
        // Writing to a string cannot fail.
        let Span { line: number, column, end_line, end_column } = self.span;
        let source = line(&self.path, number);
        let mut text = format!("  --> {}:{number}", self.file);
        if end_column > 0 {
            // Python counts bytes; people and editors count characters.
            let before = source.as_deref().and_then(|source| source.get(..column as usize));
            let column = before.map_or(column as usize, |before| before.chars().count());
            let _ = write!(text, ":{}", column + 1);
        }
        let _ = write!(text, " in {}", self.function);
        if !self.scope.is_empty() {
            let _ = write!(text, " ({})", self.scope);
        }
        if let Some(label) = &self.label {
            let _ = write!(text, ": {label}");
        }
        let Some(source) = source else { return text };
        let source = source.trim_end();
        let width = number.to_string().len().max(4);
        let _ = write!(text, "\n {number:>width$} | {source}");
        let start = column as usize;
        let end = if end_line > number { source.len() } else { end_column as usize };
        if let (Some(before), Some(marked)) = (source.get(..start), source.get(start..end))
            && !marked.is_empty()
        {
            // Tabs stay tabs so that the markers line up with the source.
            let blank = |c: char| match c {
                '\t' => "\t".to_owned(),
                c => " ".repeat(c.width().unwrap_or_default()),
            };
            let indent: String = before.chars().map(blank).collect();
            let marks = "^".repeat(marked.width().max(1));
            let _ = write!(text, "\n {:>width$} | {indent}{marks}", "");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(span: Span) -> SourceLocation {
        SourceLocation {
            label: None,
            file: "model.py".into(),
            path: "/home/me/model.py".into(),
            function: "Whiten.__call__".into(),
            scope: "encoder/whiten".into(),
            span,
        }
    }

    #[test]
    fn the_expression_is_underlined() {
        let span = Span { line: 41, column: 11, end_line: 41, end_column: 31 };
        let diagnostic = Diagnostic {
            code: "unsupported-primitive",
            message: "`eigh` has no ONNX lowering".into(),
            places: vec![place(span)],
            help: Some("compute it outside the model".into()),
        };
        let source = |_: &str, _: u32| Some("    w, v = jnp.linalg.eigh(cov)\n".to_owned());
        insta::assert_snapshot!(diagnostic.render(&source));
    }

    #[test]
    fn wide_characters_are_underlined_whole() {
        let source = |_: &str, _: u32| Some("f('日本', é) + x".to_owned());
        let text = place(Span { line: 1, column: 16, end_line: 1, end_column: 17 }).render(&source);
        assert!(text.contains("model.py:1:12 in"), "columns are characters: {text}");
        let text = place(Span { line: 1, column: 2, end_line: 1, end_column: 10 }).render(&source);
        assert!(text.ends_with("|   ^^^^^^"), "{text}");
        let text = place(Span { line: 1, column: 18, end_line: 1, end_column: 19 }).render(&source);
        assert!(text.ends_with(&format!("| {}^", " ".repeat(15))), "{text}");
    }

    #[test]
    fn odd_spans_do_not_panic() {
        let source = |_: &str, _: u32| Some("ä = 1".to_owned());
        for (column, end_column) in [(1, 2), (9, 12), (4, 2), (0, 0)] {
            let span = Span { line: 1, column, end_line: 1, end_column };
            assert!(place(span).render(&source).contains("ä = 1"));
        }
    }
}
