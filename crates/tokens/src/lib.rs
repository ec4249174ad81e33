//! Reads text token by token. What the tokens are is up to each syntax.

mod scanner;
mod stream;

pub use scanner::Scanner;
pub use stream::{Token, Tokens};

/// What is wrong with a text, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    /// The byte.
    pub at: usize,
    /// What is wrong.
    pub reason: String,
}

/// What was read, or why it cannot be.
pub type Read<T> = Result<T, Fail>;

/// A complaint about the byte at `at`.
pub fn fail<T>(at: usize, reason: impl Into<String>) -> Read<T> {
    Err(Fail { at, reason: reason.into() })
}

impl Fail {
    /// The line and the column of `text` where it is, both from 1.
    pub fn position(&self, text: &str) -> (usize, usize) {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }
}
