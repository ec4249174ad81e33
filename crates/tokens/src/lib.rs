//! A tokeniser. Each syntax defines its own tokens.

mod scanner;
mod stream;

pub use scanner::Scanner;
pub use stream::{Token, Tokens};

/// A syntax error and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    /// The byte offset of the error.
    pub at: usize,
    /// A description of the error.
    pub reason: String,
}

/// The result of reading a part of the text.
pub type Read<T> = Result<T, Fail>;

/// Returns an error about the byte at `at`.
pub fn fail<T>(at: usize, reason: impl Into<String>) -> Read<T> {
    Err(Fail { at, reason: reason.into() })
}

impl Fail {
    /// Returns the line and the column of the error in `text`, both counted from 1.
    pub fn position(&self, text: &str) -> (usize, usize) {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }
}
