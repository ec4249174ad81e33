//! The tokens of the text.

use std::fmt;

use tokens::{Read, Scanner, Token as _, fail};

/// A token of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Quoted(String),
    /// A number as written: decimal with an optional point and exponent, `inf`, `nan`, or its bits.
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

impl<'a> tokens::Token<'a> for Token<'a> {
    const COMMENT: &'static str = "//";
    const END: Self = Token::End;

    fn sign(sign: char) -> Self {
        Token::Sign(sign)
    }

    fn read(scanner: &mut Scanner<'a>, first: char) -> Read<Self> {
        let start = scanner.at();
        Ok(match first {
            'a'..='z' | 'A'..='Z' | '_' => match word(scanner) {
                word if is_number_word(word) => Token::Number(word),
                word => Token::Word(word),
            },
            '0' if scanner.eat("0x") => {
                scanner.take(|c| c.is_ascii_hexdigit());
                Token::Number(scanner.since(start))
            }
            '0'..='9' | '-' => {
                scanner.eat("-");
                let word = word(scanner);
                if !word.is_empty() && !is_number_word(word) {
                    return fail(start, format!("expected a number, found `-{word}`"));
                }
                if word.is_empty() {
                    scanner.number()?;
                }
                Token::Number(scanner.since(start))
            }
            '"' => Token::Quoted(scanner.quoted(escaped)?),
            ':' if scanner.eat("::") => Token::Annotations,
            '.' if scanner.eat("...") => Token::Elided,
            _ => Token::Sign(scanner.sign("{}()[],:;.=%@#")?),
        })
    }
}

/// Reads a word, which may contain hyphens, as in `scatter-add`.
fn word<'a>(scanner: &mut Scanner<'a>) -> &'a str {
    let start = scanner.at();
    let begins = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins(scanner.rest()) {
        scanner.word();
        while scanner.rest().strip_prefix('-').is_some_and(begins) {
            scanner.eat("-");
            scanner.word();
        }
    }
    scanner.since(start)
}

fn escaped(c: char) -> Option<char> {
    Some(match c {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '"' | '\\' => c,
        _ => return None,
    })
}

/// Reads the text up to one of `ends` outside of parentheses. Parentheses are part of the text.
pub(super) fn raw<'a>(
    scanner: &mut Scanner<'a>,
    ends: &[char],
    longest: usize,
) -> Read<(usize, &'a str)> {
    scanner.skip_blanks(Token::COMMENT);
    let (start, rest, mut depth) = (scanner.at(), scanner.rest(), 0usize);
    for (i, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 && ends.contains(&c) => {
                scanner.eat(&rest[..i]);
                return Ok((start, rest[..i].trim_end()));
            }
            _ => {}
        }
        if i > longest {
            return fail(start, format!("expected {ends:?} within {longest} characters"));
        }
    }
    let end = start + rest.len();
    fail(end, format!("expected one of {ends:?}, found the end of the text"))
}

/// Returns `true` for the words that are numbers.
pub(super) fn is_number_word(word: &str) -> bool {
    matches!(word, "inf" | "nan")
}

/// Returns `true` if a name can be written without quotes.
pub(super) fn is_plain(name: &str) -> bool {
    let mut pieces = name.split('-');
    let starts = |piece: &str| piece.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    pieces
        .all(|piece| starts(piece) && piece.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        && !is_number_word(name)
}

/// Formats a name, quoted unless it is a plain word.
pub(super) fn name(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Quotes a text.
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
