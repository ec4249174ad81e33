//! Parameters, to and from text.

use std::sync::Arc;

use tensor::{DType, Dim};

use super::array;
use super::jaxpr::{Parser, Scope};
use super::token::{Token, is_plain, quoted};
use crate::{Param, Params};
use tokens::{Read, fail};

/// The keywords that precede a quoted string.
const DIM: &str = "dim";
const ENUM: &str = "enum";
const OPAQUE: &str = "opaque";

/// Returns `true` for words that cannot be a member of an enum.
fn is_taken(word: &str) -> bool {
    matches!(word, "None" | "True" | "False" | "base64" | DIM | ENUM | OPAQUE)
        || DType::from_short_name(word).is_some()
}

impl<'a> Parser<'a> {
    /// Parses parameters such as `a=1 b=2]` after an opening bracket.
    pub(super) fn params(&mut self, scope: &mut Scope<'a>) -> Read<Params> {
        Ok(Params(self.fields(scope)?))
    }

    fn fields(&mut self, scope: &mut Scope<'a>) -> Read<Vec<(Arc<str>, Param)>> {
        let mut fields = Vec::new();
        while !self.eat(']')? {
            let name = self.name("the name of a parameter, or `]`")?;
            self.expect('=')?;
            fields.push((name, self.nested(|parser| parser.param(scope))?));
            self.eat(',')?;
        }
        Ok(fields)
    }

    fn param(&mut self, scope: &mut Scope<'a>) -> Read<Param> {
        let at = self.at;
        match self.token {
            Token::Number(_) | Token::Word("True" | "False")
                if self.is_before(&Token::Sign(':')) =>
            {
                self.literal().map(Param::Tensor)
            }
            Token::Number(text) => {
                self.advance()?;
                number(text).or_else(|reason| fail(at, reason))
            }
            Token::Quoted(_) => self.quoted("a string").map(Param::Str),
            Token::Elided | Token::Word("base64") => self.literal().map(Param::Tensor),
            Token::Word(word) => {
                self.advance()?;
                Ok(match word {
                    "None" => Param::None,
                    "True" => Param::Bool(true),
                    "False" => Param::Bool(false),
                    DIM => {
                        let at = self.at;
                        let text = self.quoted("a dimension in quotes")?;
                        match self.dim(at, &text)? {
                            Dim::Known(size) => Param::Int(size),
                            dim => Param::Dim(dim),
                        }
                    }
                    ENUM => Param::Enum(self.quoted("a name in quotes")?),
                    OPAQUE => Param::Opaque(self.quoted("the name of a type in quotes")?),
                    word => match DType::from_short_name(word) {
                        Some(dtype) => Param::DType(dtype),
                        None => Param::Enum(word.into()),
                    },
                })
            }
            Token::Sign('(') => {
                self.advance()?;
                self.list(scope).map(Param::List)
            }
            Token::Sign('[') => {
                self.advance()?;
                self.fields(scope).map(Param::Fields)
            }
            Token::Sign('@') => {
                self.advance()?;
                let id = self.definition()?;
                self.calls(scope, id);
                Ok(Param::Jaxpr(id))
            }
            Token::Sign('{') if self.is_before(&Token::Word("lambda")) => {
                let id = self.jaxpr()?;
                self.calls(scope, id);
                Ok(Param::Jaxpr(id))
            }
            Token::Sign('{') => self.literal().map(Param::Tensor),
            _ => self.unexpected("the value of a parameter"),
        }
    }

    fn list(&mut self, scope: &mut Scope<'a>) -> Read<Vec<Param>> {
        let mut items = Vec::new();
        while !self.eat(')')? {
            items.push(self.nested(|parser| parser.param(scope))?);
            if !self.eat(',')? && self.token != Token::Sign(')') {
                return self.unexpected("`,` or `)`");
            }
        }
        Ok(items)
    }
}

fn number(text: &str) -> Result<Param, String> {
    if let Some(bits) = text.strip_prefix("0x") {
        let bits = u64::from_str_radix(bits, 16);
        return bits
            .map(|bits| Param::Float(f64::from_bits(bits)))
            .map_err(|_| format!("`{text}` is not the bits of a 64-bit float"));
    }
    if text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return text
            .parse()
            .map(Param::Int)
            .map_err(|_| format!("`{text}` does not fit into 64 bits"));
    }
    text.parse().map(Param::Float).map_err(|_| format!("`{text}` is not a number"))
}

/// Formats a parameter that contains no jaxpr and no array.
pub(super) fn plain(param: &Param) -> Option<String> {
    Some(match param {
        Param::None => "None".to_owned(),
        Param::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
        Param::Int(value) => value.to_string(),
        Param::Float(value) => {
            let text = array::float(value);
            let again = number(&text);
            let is_same = |f: f64| f.to_bits() == value.to_bits();
            match again {
                Ok(Param::Float(again)) if is_same(again) => text,
                _ => format!("0x{:016x}", value.to_bits()),
            }
        }
        Param::Str(text) => quoted(text),
        Param::Enum(word) if is_plain(word) && !is_taken(word) => word.to_string(),
        Param::Enum(word) => format!("{ENUM} {}", quoted(word)),
        Param::DType(dtype) => dtype.short_name().to_owned(),
        Param::Dim(dim) => format!("{DIM} {}", quoted(&dim.to_string())),
        Param::Opaque(name) => format!("{OPAQUE} {}", quoted(name)),
        Param::List(_) | Param::Fields(_) | Param::Tensor(_) | Param::Jaxpr(_) => return None,
    })
}
