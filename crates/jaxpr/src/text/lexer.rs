//! Characters to tokens.

use super::token::{Token, is_number_word};

/// What is wrong with a text, and the byte where.
#[derive(Debug)]
pub(super) struct Fail {
    pub(super) at: usize,
    pub(super) reason: String,
}

pub(super) type Read<T> = Result<T, Fail>;

/// A complaint about the byte at `at`.
pub(super) fn fail<T>(at: usize, reason: impl Into<String>) -> Read<T> {
    Err(Fail { at, reason: reason.into() })
}

/// Reads tokens one by one; `at` is the byte behind the last one.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// The next token and the byte where it starts.
    pub(super) fn next(&mut self) -> Read<(usize, Token<'a>)> {
        self.skip_blanks();
        let (start, rest) = (self.at, self.rest());
        let Some(first) = rest.chars().next() else { return Ok((start, Token::End)) };
        let token = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let word = self.word();
                if is_number_word(word) { Token::Number(word) } else { Token::Word(word) }
            }
            '0'..='9' | '-' => self.number()?,
            '"' => self.quoted()?,
            ':' if rest.starts_with("::") => self.symbol(2, Token::Annotations),
            '.' if rest.starts_with("...") => self.symbol(3, Token::Elided),
            '{' | '}' | '(' | ')' | '[' | ']' | ',' | ':' | ';' | '.' | '=' | '%' | '@' | '#' => {
                self.symbol(1, Token::Sign(first))
            }
            _ => return fail(start, format!("unexpected character {first:?}")),
        };
        Ok((start, token))
    }

    /// The text up to one of `ends` outside of parentheses, which are part of it.
    pub(super) fn raw(&mut self, ends: &[char], longest: usize) -> Read<(usize, &'a str)> {
        self.skip_blanks();
        let (start, rest) = (self.at, self.rest());
        let mut depth = 0usize;
        for (i, c) in rest.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                c if depth == 0 && ends.contains(&c) => {
                    self.at += i;
                    return Ok((start, rest[..i].trim_end()));
                }
                _ => {}
            }
            if i > longest {
                return fail(start, format!("expected {ends:?} within {longest} characters"));
            }
        }
        fail(self.text.len(), format!("expected one of {ends:?}, found the end of the text"))
    }

    fn symbol(&mut self, length: usize, token: Token<'a>) -> Token<'a> {
        self.at += length;
        token
    }

    fn take(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// A word; it may have hyphens inside, as `scatter-add` has.
    fn word(&mut self) -> &'a str {
        let (start, rest) = (self.at, self.rest());
        loop {
            self.take(|c| c.is_ascii_alphanumeric() || c == '_');
            let behind = self.rest().strip_prefix('-');
            let goes_on =
                |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !behind.is_some_and(goes_on) {
                return &rest[..self.at - start];
            }
            self.at += 1;
        }
    }

    fn number(&mut self) -> Read<Token<'a>> {
        let (start, rest) = (self.at, self.rest());
        let sign = usize::from(rest.starts_with('-'));
        self.at += sign;
        let text = |lexer: &Self| Ok(Token::Number(&rest[..lexer.at - start]));
        if self.rest().starts_with(|c: char| c.is_ascii_alphabetic()) {
            let word = self.word();
            return if is_number_word(word) {
                text(self)
            } else {
                fail(start, format!("expected a number, found `-{word}`"))
            };
        }
        if sign == 0 && self.rest().starts_with("0x") {
            self.at += 2;
            self.take(|c| c.is_ascii_hexdigit());
            return text(self);
        }
        if self.take(|c| c.is_ascii_digit()).is_empty() {
            return fail(start, "expected a number");
        }
        if self.rest().starts_with('.') && !self.rest().starts_with("..") {
            self.at += 1;
            self.take(|c| c.is_ascii_digit());
        }
        if self.rest().starts_with('e') {
            self.at += 1;
            if self.rest().starts_with(['+', '-']) {
                self.at += 1;
            }
            if self.take(|c| c.is_ascii_digit()).is_empty() {
                return fail(self.at, "expected the digits of an exponent");
            }
        }
        text(self)
    }

    fn quoted(&mut self) -> Read<Token<'a>> {
        let start = self.at;
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += i + 1;
                    return Ok(Token::Quoted(text));
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, c @ ('"' | '\\'))) => text.push(c),
                    _ => return fail(start + i, r#"expected one of \" \\ \n \r \t"#),
                },
                _ => text.push(c),
            }
        }
        fail(start, "this string does not end")
    }
}
