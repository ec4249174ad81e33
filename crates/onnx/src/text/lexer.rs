//! Splits text into tokens.

/// What is wrong with a text, and at which byte.
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

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Id(&'a str),
    Quoted(String),
    Int(&'a str),
    Float(&'a str),
    Arrow,
    Sign(char),
    End,
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Id(text) | Token::Int(text) | Token::Float(text) => write!(f, "`{text}`"),
            Token::Quoted(text) => write!(f, "{text:?}"),
            Token::Arrow => f.write_str("`=>`"),
            Token::Sign(c) => write!(f, "`{c}`"),
            Token::End => f.write_str("the end of the text"),
        }
    }
}

/// Reads tokens one by one; `at` is the byte after the last one.
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
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// The next token and the byte where it starts.
    pub(super) fn next(&mut self) -> Read<(usize, Token<'a>)> {
        self.skip_blanks();
        let (start, rest) = (self.at, self.rest());
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { return Ok((start, Token::End)) };
        let token = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
                if is_float_word(word) { Token::Float(word) } else { Token::Id(word) }
            }
            '0'..='9' => self.number(0)?,
            '+' | '-' => self.number(1)?,
            '"' => self.quoted()?,
            '=' if rest.starts_with("=>") => {
                self.at += 2;
                Token::Arrow
            }
            '<' | '>' | '(' | ')' | '{' | '}' | '[' | ']' | ',' | ':' | '=' | '.' | '@' | '?' => {
                self.at += 1;
                Token::Sign(first)
            }
            _ => return fail(start, format!("unexpected character {first:?}")),
        };
        Ok((start, token))
    }

    fn take(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// A number whose sign takes `sign` bytes.
    fn number(&mut self, sign: usize) -> Read<Token<'a>> {
        let (start, rest) = (self.at, self.rest());
        self.at += sign;
        let word = self.take(|c| c.is_ascii_alphabetic());
        if !word.is_empty() {
            if is_float_word(word) {
                return Ok(Token::Float(&rest[..sign + word.len()]));
            }
            return fail(start, format!("`{word}` is not a number"));
        }
        let digits = |lexer: &mut Self| lexer.take(|c| c.is_ascii_digit()).len();
        if digits(self) == 0 {
            return fail(start, "expected a number");
        }
        let mut float = false;
        if self.rest().starts_with('.') {
            float = true;
            self.at += 1;
            digits(self);
        }
        if self.rest().starts_with(['e', 'E']) {
            float = true;
            self.at += 1;
            if self.rest().starts_with(['+', '-']) {
                self.at += 1;
            }
            if digits(self) == 0 {
                return fail(self.at, "expected the digits of an exponent");
            }
        }
        let text = &rest[..self.at - start];
        Ok(if float { Token::Float(text) } else { Token::Int(text) })
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
                '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => text.push(c),
            }
        }
        fail(start, "the string is not closed")
    }
}

/// The numbers that are words.
pub(super) fn is_float_word(word: &str) -> bool {
    ["inf", "infinity", "nan"].iter().any(|w| word.eq_ignore_ascii_case(w))
}
