//! Text for terminals, optionally with colours. Names in a model can contain anything, so all other
//! control sequences are escaped.

use std::borrow::Cow;

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// Normal text.
    #[default]
    Plain,
    /// The most important text.
    Bold,
    /// The least important text.
    Dim,
    /// Errors.
    Red,
    /// Additions.
    Green,
    /// Warnings.
    Yellow,
    /// Locations in files.
    Cyan,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Red => "1;31",
            Style::Green => "32",
            Style::Yellow => "33",
            Style::Cyan => "36",
        }
    }
}

/// A text under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    text: String,
    colors: bool,
}

impl Text {
    pub(crate) fn new(colors: bool) -> Self {
        Self { text: String::new(), colors }
    }

    /// Appends `text` to the line. Line breaks in it are escaped.
    pub(crate) fn put(&mut self, text: &str) {
        self.text.push_str(&on_one_line(text));
    }

    /// Appends several complete lines.
    pub(crate) fn lines(&mut self, lines: &str) {
        self.text.push_str(&harmless(lines));
    }

    /// Appends `text` in the given style.
    pub(crate) fn styled(&mut self, style: Style, text: &str) {
        if !self.colors || style == Style::Plain || text.is_empty() {
            return self.put(text);
        }
        self.text.push_str(&format!("\x1b[{}m", style.code()));
        self.put(text);
        self.text.push_str("\x1b[0m");
    }

    /// Appends `text` in the given style and ends the line.
    pub(crate) fn styled_line(&mut self, style: Style, text: &str) {
        self.styled(style, text);
        self.text.push('\n');
    }

    /// Appends `text` and ends the line.
    pub(crate) fn line(&mut self, text: &str) {
        self.put(text);
        self.text.push('\n');
    }

    /// Returns the text so far.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Removes trailing empty lines.
    pub(crate) fn trim_lines(&mut self) {
        while self.text.ends_with("\n\n") {
            self.text.pop();
        }
    }

    /// Removes trailing spaces from the last line.
    pub(crate) fn trim_end(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
    }
}

/// Escapes control characters except line breaks and tabs.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n')
}

/// Escapes control characters except tabs.
pub(crate) fn on_one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| true)
}

fn escaped(text: &str, counts: impl Fn(char) -> bool) -> Cow<'_, str> {
    let harmful = |c: char| c != '\t' && is_harmful(c) && counts(c);
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' && harmful(c) {
            clean.push_str("\\n");
        } else if harmful(c) {
            clean.extend(c.escape_unicode());
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

/// Returns `true` if a character can control a terminal, reorder its text, break its lines or hide
/// in it. Joiners and variation selectors are parts of words and emoji.
pub(crate) fn is_harmful(c: char) -> bool {
    let is_invisible = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}');
    c.is_control() || is_reordering(c) || is_invisible || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Returns `true` if a character can reorder the text around it.
pub(crate) fn is_reordering(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_used_only_if_wanted() {
        for (colors, expected) in [(false, "a b"), (true, "a \x1b[36mb\x1b[0m")] {
            let mut text = Text::new(colors);
            text.put("a ");
            text.styled(Style::Cyan, "b");
            assert_eq!(text.as_str(), expected);
        }
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        assert_eq!(on_one_line("a\nb\r"), "a\\nb\\u{d}");
        for hidden in ['\u{ad}', '\u{200b}', '\u{feff}', '\u{3164}', '\u{e0041}'] {
            assert_eq!(
                on_one_line(&format!("a{hidden}b")),
                format!("a{}b", hidden.escape_unicode())
            );
        }
        assert_eq!(
            on_one_line("\u{1f469}\u{200d}\u{1f680} \u{2764}\u{fe0f}"),
            "\u{1f469}\u{200d}\u{1f680} \u{2764}\u{fe0f}"
        );
        assert_eq!(harmless("a\x1b[2Jb\r\u{202e}c\n\td"), "a\\u{1b}[2Jb\\u{d}\\u{202e}c\n\td");
    }

    #[test]
    fn only_styled_text_has_escape_sequences() {
        let styled = |style, shown: &str| {
            let mut text = Text::new(true);
            text.styled(style, shown);
            text.as_str().to_owned()
        };
        assert_eq!(styled(Style::Plain, "a"), "a");
        assert_eq!(styled(Style::Red, ""), "");
        assert_eq!(styled(Style::Green, "a"), "\x1b[32ma\x1b[0m");
    }

    #[test]
    fn empty_lines_at_the_end_are_removed() {
        let mut text = Text::new(false);
        text.lines("a\n\nb\n\n\n");
        text.trim_lines();
        assert_eq!(text.as_str(), "a\n\nb\n");
    }
}
