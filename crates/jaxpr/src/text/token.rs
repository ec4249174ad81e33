//! The words of the text.

use std::fmt;

/// A word of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Quoted(String),
    /// A number as it is written: with a point, an exponent, as `inf` or `nan`, or by its bits.
    Number(&'a str),
    /// `::`
    Annotations,
    /// `...`
    Elided,
    Sign(char),
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(text) | Token::Number(text) => write!(f, "`{text}`"),
            Token::Quoted(text) => write!(f, "{text:?}"),
            Token::Annotations => f.write_str("`::`"),
            Token::Elided => f.write_str("`...`"),
            Token::Sign(sign) => write!(f, "`{sign}`"),
            Token::End => f.write_str("the end of the text"),
        }
    }
}

/// The numbers that are words.
pub(super) fn is_number_word(word: &str) -> bool {
    matches!(word, "inf" | "nan")
}

/// Whether a name can be written without quotes.
pub(super) fn is_plain(name: &str) -> bool {
    let mut pieces = name.split('-');
    let starts = |piece: &str| piece.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    pieces
        .all(|piece| starts(piece) && piece.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        && !is_number_word(name)
}

/// A name, in quotes unless it is a plain word.
pub(super) fn name(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// A text in quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}
