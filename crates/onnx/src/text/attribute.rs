//! Parses attributes: `name: type = value`, where the type is optional.

use std::sync::Arc;

use tensor::DType;
use tokens::{Read, fail};

use super::lexer::Token;
use super::literal::Number;
use super::parse::Parser;
use super::syntax::{Argument, Name};
use crate::Attr;

/// An element of a list.
enum Item<'a> {
    Number(Number<'a>),
    Text(Arc<str>),
}

impl<'a> Parser<'a> {
    /// Parses `<a = 1, b: ints = [2, 3]>`, or nothing.
    pub(super) fn attributes(&mut self) -> Read<Vec<(Name, Argument)>> {
        if !self.eat('<')? {
            return Ok(Vec::new());
        }
        self.list('>', |p| {
            let name = p.name("the name of an attribute")?;
            let ty = if p.eat(':')? { Some(p.id("an attribute type")?) } else { None };
            p.expect('=')?;
            Ok((name, p.argument(ty)?))
        })
    }

    fn argument(&mut self, ty: Option<&str>) -> Read<Argument> {
        let at = self.at;
        match ty {
            Some("graph") => return Ok(Argument::Graph(self.body(true)?)),
            Some("tensor") => return self.tensor().map(Argument::Plain),
            None | Some("int" | "float" | "string" | "ints" | "floats" | "strings") => {}
            Some(other) => return fail(at, format!("unsupported attribute type `{other}`")),
        }
        if let (None, Token::Id(word)) = (ty, &self.token) {
            if DType::from_onnx_name(word).is_some() {
                return self.tensor().map(Argument::Plain);
            }
            return Ok(Argument::Graph(self.body(true)?));
        }
        if self.token == Token::Sign('@') {
            return fail(at, "attributes of functions are not supported");
        }
        let attr = if self.eat('[')? {
            let items = self.list(']', Self::item)?;
            list(at, ty, items)?
        } else {
            scalar(at, ty, self.item()?)?
        };
        Ok(Argument::Plain(attr))
    }

    fn tensor(&mut self) -> Read<Attr> {
        let at = self.at;
        let ty = self.ty()?;
        if matches!(self.token, Token::Id(_) | Token::Quoted(_)) {
            self.advance()?;
        }
        self.eat('=')?;
        Ok(Attr::Tensor(self.elements(at, &ty)?))
    }

    fn item(&mut self) -> Read<Item<'a>> {
        if let Token::Quoted(text) = &self.token {
            let text = text.as_str().into();
            self.advance()?;
            return Ok(Item::Text(text));
        }
        Ok(Item::Number(self.number()?))
    }
}

fn scalar(at: usize, ty: Option<&str>, item: Item<'_>) -> Read<Attr> {
    match (ty, item) {
        (Some("string") | None, Item::Text(text)) => Ok(Attr::String(text)),
        (Some("float"), Item::Number(n)) => Ok(Attr::Float(n.f32()?)),
        (None, Item::Number(n)) if n.float => Ok(Attr::Float(n.f32()?)),
        (Some("int") | None, Item::Number(n)) => Ok(Attr::Int(n.int()?)),
        (Some(ty), _) => fail(at, format!("expected a value of type `{ty}`")),
    }
}

fn list(at: usize, ty: Option<&str>, items: Vec<Item<'_>>) -> Read<Attr> {
    let ty = match (ty, items.first()) {
        (Some(ty), _) => ty,
        (None, Some(Item::Text(_))) => "strings",
        (None, Some(Item::Number(_))) => {
            let is_float = |item: &Item<'_>| matches!(item, Item::Number(n) if n.float);
            if items.iter().any(is_float) { "floats" } else { "ints" }
        }
        (None, None) => return fail(at, "an empty list needs a type"),
    };
    let numbers = || {
        items.iter().map(|item| match item {
            Item::Number(n) => Ok(n),
            Item::Text(_) => fail(at, "the elements of a list must have the same type"),
        })
    };
    match ty {
        "ints" => Ok(Attr::Ints(numbers().map(|n| n?.int()).collect::<Read<_>>()?)),
        "floats" => Ok(Attr::Floats(numbers().map(|n| n?.f32()).collect::<Read<_>>()?)),
        "strings" => {
            let texts = items.into_iter().map(|item| match item {
                Item::Text(text) => Ok(text),
                Item::Number(n) => fail(n.at, "the elements of a list must have the same type"),
            });
            Ok(Attr::Strings(texts.collect::<Read<_>>()?))
        }
        ty => fail(at, format!("expected a value of type `{ty}`")),
    }
}
