//! A stream of tokens with one token of lookahead.

use std::fmt::Display;

use crate::{Read, Scanner, fail};

/// A token of a syntax.
pub trait Token<'a>: Clone + PartialEq + Display {
    /// The prefix of a comment.
    const COMMENT: &'static str;
    /// The token at the end of the text.
    const END: Self;

    /// Returns the token of a sign.
    fn sign(sign: char) -> Self;

    /// Reads the token that starts with `first`, which is not consumed yet.
    fn read(scanner: &mut Scanner<'a>, first: char) -> Read<Self>;
}

/// The tokens of a text: the current one, and the text after it.
#[derive(Clone, Debug)]
pub struct Tokens<'a, T> {
    /// The text after the current token.
    pub rest: Scanner<'a>,
    /// The byte offset of the current token.
    pub at: usize,
    /// The current token.
    pub token: T,
}

impl<'a, T: Token<'a>> Tokens<'a, T> {
    /// Starts reading `text` at its first token.
    pub fn new(text: &'a str) -> Read<Self> {
        let mut tokens = Self { rest: Scanner::new(text), at: 0, token: T::END };
        tokens.advance()?;
        Ok(tokens)
    }

    /// Advances to the next token. Returns the previous one.
    pub fn advance(&mut self) -> Read<T> {
        self.rest.skip_blanks(T::COMMENT);
        self.at = self.rest.at();
        let token = match self.rest.rest().chars().next() {
            None => T::END,
            Some(first) => T::read(&mut self.rest, first)?,
        };
        Ok(std::mem::replace(&mut self.token, token))
    }

    /// Returns `true` if the token after the current one is `token`.
    pub fn is_before(&self, token: &T) -> bool {
        let mut ahead = self.clone();
        ahead.advance().is_ok() && ahead.token == *token
    }

    /// Returns an error about the current token.
    pub fn unexpected<R>(&self, expected: &str) -> Read<R> {
        fail(self.at, format!("expected {expected}, found {}", self.token))
    }

    /// Advances and returns `true` if the current token is `token`.
    pub fn eat_token(&mut self, token: &T) -> Read<bool> {
        let found = self.token == *token;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Advances if the current token is `token`, and fails otherwise.
    pub fn expect_token(&mut self, token: &T) -> Read<()> {
        if self.eat_token(token)? { Ok(()) } else { self.unexpected(&token.to_string()) }
    }

    /// Advances and returns `true` if the current token is `sign`.
    pub fn eat(&mut self, sign: char) -> Read<bool> {
        self.eat_token(&T::sign(sign))
    }

    /// Advances if the current token is `sign`, and fails otherwise.
    pub fn expect(&mut self, sign: char) -> Read<()> {
        self.expect_token(&T::sign(sign))
    }
}
