//! The tokens of ONNX's text syntax.

use std::fmt;

use tokens::{Read, Scanner, fail};

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

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Id(text) | Token::Int(text) | Token::Float(text) => write!(f, "`{text}`"),
            Token::Quoted(text) => write!(f, "{text:?}"),
            Token::Arrow => f.write_str("`=>`"),
            Token::Sign(c) => write!(f, "`{c}`"),
            Token::End => f.write_str("the end of the text"),
        }
    }
}

impl<'a> tokens::Token<'a> for Token<'a> {
    const COMMENT: &'static str = "#";
    const END: Self = Token::End;

    fn sign(sign: char) -> Self {
        Token::Sign(sign)
    }

    fn read(scanner: &mut Scanner<'a>, first: char) -> Read<Self> {
        let start = scanner.at();
        Ok(match first {
            'a'..='z' | 'A'..='Z' | '_' => match scanner.word() {
                word if is_float_word(word) => Token::Float(word),
                word => Token::Id(word),
            },
            '0'..='9' | '+' | '-' => {
                let _ = scanner.eat("+") || scanner.eat("-");
                let word = scanner.take(|c| c.is_ascii_alphabetic());
                if !word.is_empty() && !is_float_word(word) {
                    return fail(start, format!("`{word}` is not a number"));
                }
                let float = !word.is_empty() || scanner.number()?;
                let text = scanner.since(start);
                if float { Token::Float(text) } else { Token::Int(text) }
            }
            '"' => Token::Quoted(scanner.quoted(Some)?),
            '=' if scanner.eat("=>") => Token::Arrow,
            _ => Token::Sign(scanner.sign("<>(){}[],:=.@?")?),
        })
    }
}

/// Returns `true` if a word is a float, such as `inf`.
pub(super) fn is_float_word(word: &str) -> bool {
    ["inf", "infinity", "nan"].iter().any(|w| word.eq_ignore_ascii_case(w))
}
