//! One token after the other.

use std::fmt::Display;

use crate::{Read, Scanner, fail};

/// A token of a syntax.
pub trait Token<'a>: Clone + PartialEq + Display {
    /// What starts a comment.
    const COMMENT: &'static str;
    /// What follows the last token.
    const END: Self;

    /// The token of a sign.
    fn sign(sign: char) -> Self;

    /// Reads the token that begins with `first`, which has not been read.
    fn read(scanner: &mut Scanner<'a>, first: char) -> Read<Self>;
}

/// The tokens of a text, and the one that is next.
#[derive(Clone, Debug)]
pub struct Tokens<'a, T> {
    /// What follows the token.
    pub rest: Scanner<'a>,
    /// The byte where it starts.
    pub at: usize,
    /// The token.
    pub token: T,
}

impl<'a, T: Token<'a>> Tokens<'a, T> {
    /// The tokens of `text`.
    pub fn new(text: &'a str) -> Read<Self> {
        let mut tokens = Self { rest: Scanner::new(text), at: 0, token: T::END };
        tokens.advance()?;
        Ok(tokens)
    }

    /// Goes on to the next token. Returns the one before it.
    pub fn advance(&mut self) -> Read<T> {
        self.rest.skip_blanks(T::COMMENT);
        self.at = self.rest.at();
        let token = match self.rest.rest().chars().next() {
            None => T::END,
            Some(first) => T::read(&mut self.rest, first)?,
        };
        Ok(std::mem::replace(&mut self.token, token))
    }

    /// Whether the token after this one is `token`.
    pub fn is_before(&self, token: &T) -> bool {
        let mut ahead = self.clone();
        ahead.advance().is_ok() && ahead.token == *token
    }

    /// A complaint about the token.
    pub fn unexpected<R>(&self, expected: &str) -> Read<R> {
        fail(self.at, format!("expected {expected}, found {}", self.token))
    }

    /// Goes on if the token is `token`.
    pub fn eat_token(&mut self, token: &T) -> Read<bool> {
        let found = self.token == *token;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Goes on if the token is `token`; it is an error otherwise.
    pub fn expect_token(&mut self, token: &T) -> Read<()> {
        if self.eat_token(token)? { Ok(()) } else { self.unexpected(&token.to_string()) }
    }

    /// Goes on if the token is `sign`.
    pub fn eat(&mut self, sign: char) -> Read<bool> {
        self.eat_token(&T::sign(sign))
    }

    /// Goes on if the token is `sign`; it is an error otherwise.
    pub fn expect(&mut self, sign: char) -> Read<()> {
        self.expect_token(&T::sign(sign))
    }
}
