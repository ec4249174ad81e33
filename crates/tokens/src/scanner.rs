//! Scanning of single characters.

use crate::{Read, fail};

/// A text and the current position in it.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the position: the byte after the last one that was read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the rest of the text.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Returns the text from the byte `start` up to the current position.
    pub fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Consumes `expected` and returns `true`, if it comes next.
    pub fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    /// Consumes and returns the longest prefix of characters that satisfy `accept`.
    pub fn take(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Consumes whitespace and comments, which start with `comment` and end with the line.
    pub fn skip_blanks(&mut self, comment: &str) {
        self.take(char::is_whitespace);
        while self.rest().starts_with(comment) {
            self.take(|c| c != '\n');
            self.take(char::is_whitespace);
        }
    }

    /// Consumes one of `signs`.
    pub fn sign(&mut self, signs: &str) -> Read<char> {
        match self.rest().chars().next() {
            Some(sign) if signs.contains(sign) => {
                self.at += sign.len_utf8();
                Ok(sign)
            }
            Some(other) => fail(self.at, format!("unexpected character {other:?}")),
            None => fail(self.at, "unexpected end of the text"),
        }
    }

    /// Consumes letters, digits and underscores.
    pub fn word(&mut self) -> &'a str {
        self.take(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Consumes an unsigned number. Returns `true` if it has a decimal point or an exponent.
    pub fn number(&mut self) -> Read<bool> {
        let digits = |scanner: &mut Self| !scanner.take(|c| c.is_ascii_digit()).is_empty();
        let start = self.at;
        if !digits(self) {
            return fail(start, "expected a number");
        }
        let point = !self.rest().starts_with("..") && self.eat(".");
        if point {
            digits(self);
        }
        let exponent = self.eat("e") || self.eat("E");
        if exponent {
            let _ = self.eat("+") || self.eat("-");
            if !digits(self) {
                return fail(self.at, "expected the digits of an exponent");
            }
        }
        Ok(point || exponent)
    }

    /// Consumes a quoted string. `escaped` maps the character after a backslash to its value.
    pub fn quoted(&mut self, escaped: impl Fn(char) -> Option<char>) -> Read<String> {
        let (start, mut text) = (self.at, String::new());
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += i + 1;
                    return Ok(text);
                }
                '\\' => match chars.next().map(|(_, c)| escaped(c)) {
                    Some(Some(c)) => text.push(c),
                    Some(None) => return fail(start + i, "unknown escape sequence"),
                    None => break,
                },
                _ => text.push(c),
            }
        }
        fail(start, "the string is not closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_at_its_quote() {
        let escaped = |c: char| (c == 'n').then_some('\n').or((c == '"').then_some('"'));
        let mut scanner = Scanner::new(r#""a\"\nü" rest"#);
        assert_eq!(scanner.quoted(escaped).unwrap(), "a\"\nü");
        assert_eq!(scanner.rest(), " rest");
        let at = |text: &'static str| Scanner::new(text).quoted(escaped).unwrap_err().at;
        assert_eq!(at(r#""ab\x""#), 3, "an unknown escape sequence");
        assert_eq!(at(r#""ab"#), 0, "the string is not closed");
    }
}
