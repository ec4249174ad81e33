//! Parses tokens into a syntax tree.

use std::ops::{Deref, DerefMut};

use tensor::{DType, Dim, Tensor, Type};
use tokens::{Read, Tokens, fail};

use super::lexer::Token;
use super::literal::{self, Number};
use super::syntax::{Body, Declared, FunctionText, Model, Name, Statement};

/// The largest nesting depth of subgraphs.
const DEPTH: usize = 48;

/// The largest length of a dimension's expression.
const DIM_LENGTH: usize = 1024;

pub(super) struct Parser<'a> {
    tokens: Tokens<'a, Token<'a>>,
    depth: usize,
}

impl<'a> Deref for Parser<'a> {
    type Target = Tokens<'a, Token<'a>>;

    fn deref(&self) -> &Self::Target {
        &self.tokens
    }
}

impl DerefMut for Parser<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tokens
    }
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Read<Self> {
        Ok(Self { tokens: Tokens::new(text)?, depth: 0 })
    }

    pub(super) fn model(&mut self) -> Read<Model> {
        self.header()?;
        let graph = self.body(true)?;
        let mut functions = Vec::new();
        while self.token != Token::End {
            let at = self.at;
            let domain = self.header()?.unwrap_or_default();
            let body = self.body(false)?;
            functions.push(FunctionText { at, domain, body });
        }
        Ok(Model { graph, functions })
    }

    /// Parses items separated by commas up to `close`, whose opening token has been read.
    pub(super) fn list<T>(
        &mut self,
        close: char,
        mut item: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(close)? {
            items.push(item(self)?);
            if !self.eat(',')? && self.token != Token::Sign(close) {
                return self.unexpected(&format!("`,` or `{close}`"));
            }
        }
        Ok(items)
    }

    pub(super) fn id(&mut self, what: &str) -> Read<&'a str> {
        let Token::Id(text) = self.token else { return self.unexpected(what) };
        self.advance()?;
        Ok(text)
    }

    /// Parses a name, quoted or not.
    pub(super) fn name(&mut self, what: &str) -> Read<Name> {
        let at = self.at;
        if !matches!(self.token, Token::Id(_) | Token::Float(_) | Token::Quoted(_)) {
            return self.unexpected(what);
        }
        let text = match self.advance()? {
            Token::Quoted(text) => text,
            Token::Id(text) => text.to_owned(),
            Token::Float(text) if text.starts_with(|c: char| c.is_alphabetic()) => text.to_owned(),
            other => return fail(at, format!("expected {what}, found {other}")),
        };
        Ok(Name { at, text })
    }

    /// Parses the header in `< >` before a model or a function, and returns its domain.
    fn header(&mut self) -> Read<Option<String>> {
        let mut domain = None;
        if !self.eat('<')? {
            return Ok(domain);
        }
        self.list('>', |p| {
            let key = p.id("a key")?;
            p.expect(':')?;
            if p.eat('[')? {
                p.list(']', |p| {
                    p.name("a string")?;
                    p.expect(':')?;
                    p.advance().map(drop)
                })?;
                return Ok(());
            }
            match p.advance()? {
                Token::Quoted(text) if key == "domain" => domain = Some(text),
                Token::Quoted(_) | Token::Int(_) => {}
                other => return fail(p.at, format!("`{key}` cannot be {other}")),
            }
            Ok(())
        })?;
        Ok(domain)
    }

    /// Parses a graph, or a function if `typed` is `false`, whose values may lack types.
    pub(super) fn body(&mut self, typed: bool) -> Read<Body> {
        self.depth += 1;
        if self.depth > DEPTH {
            return fail(self.at, "subgraphs are nested too deeply");
        }
        let name = self.name("the name of a graph")?.text;
        self.expect('(')?;
        let inputs = self.list(')', |p| {
            let input = p.declared(typed)?;
            if p.token == Token::Sign('=') {
                return p.unexpected("`,` or `)` (default values of inputs are not supported)");
            }
            Ok(input)
        })?;
        self.expect_token(&Token::Arrow)?;
        self.expect('(')?;
        let outputs = self.list(')', |p| p.declared(typed))?;
        let mut values = Vec::new();
        if self.eat('<')? {
            values = self.list('>', Self::initializer)?;
        }
        self.expect('{')?;
        let mut nodes = Vec::new();
        while !self.eat('}')? {
            nodes.push(self.statement()?);
        }
        self.depth -= 1;
        Ok(Body { name, inputs, outputs, values, nodes })
    }

    fn declared(&mut self, typed: bool) -> Read<Declared> {
        let is_type =
            matches!(self.token, Token::Id(word) if DType::from_onnx_name(word).is_some());
        let ty = if typed || is_type { Some(self.ty()?) } else { None };
        Ok(Declared { name: self.name("the name of a value")?, ty })
    }

    fn initializer(&mut self) -> Read<(Declared, Option<Tensor>)> {
        let at = self.at;
        let value = self.declared(true)?;
        if !self.eat('=')? {
            return Ok((value, None));
        }
        let Some(ty) = &value.ty else { return self.unexpected("a type") };
        let tensor = self.elements(at, ty)?;
        Ok((value, Some(tensor)))
    }

    /// Parses an element type and a shape.
    pub(super) fn ty(&mut self) -> Read<Type> {
        let at = self.at;
        let word = self.id("a type")?;
        let Some(dtype) = DType::from_onnx_name(word) else {
            return fail(at, format!("`{word}` is not a tensor type"));
        };
        if !self.eat('[')? {
            return Ok(Type::new(dtype, []));
        }
        if self.token == Token::Sign(']') {
            return fail(at, format!("the rank is unknown; a scalar is written `{word}`"));
        }
        Ok(Type::new(dtype, self.list(']', Self::dim)?))
    }

    fn dim(&mut self) -> Read<Dim> {
        let at = self.at;
        match self.advance()? {
            Token::Int(text) => match text.parse() {
                Ok(n @ 0..) => Ok(Dim::Known(n)),
                _ => fail(at, format!("`{text}` is not a dimension")),
            },
            Token::Id(name) => Ok(Dim::var(name)),
            Token::Quoted(text) if text.len() <= DIM_LENGTH => {
                Dim::parse(&text).or_else(|error| fail(at, error.to_string()))
            }
            Token::Quoted(_) => fail(at, "the dimension is too long"),
            // Each unknown dimension is a new variable, so that no two are considered equal.
            Token::Sign('?') => Ok(Dim::var(&format!("unknown_{at}"))),
            other => fail(at, format!("expected a dimension, found {other}")),
        }
    }

    /// Parses `{1, 2, …}` as a tensor of type `ty`.
    pub(super) fn elements(&mut self, at: usize, ty: &Type) -> Read<Tensor> {
        self.expect('{')?;
        let numbers = self.list('}', Self::number)?;
        let shape = ty.static_shape().unwrap_or_default().into_iter();
        let shape: Vec<usize> = shape.filter_map(|d| usize::try_from(d).ok()).collect();
        if shape.len() != ty.rank() {
            return fail(at, "the dimensions of a constant must be numbers");
        }
        literal::tensor(at, ty.dtype, &shape, &numbers)
    }

    pub(super) fn number(&mut self) -> Read<Number<'a>> {
        let Some(number) = Number::new(self.at, &self.token) else {
            return self.unexpected("a number");
        };
        self.advance()?;
        Ok(number)
    }

    fn statement(&mut self) -> Read<Statement> {
        let at = self.at;
        let mut label = None;
        if self.eat('[')? {
            label = Some(self.name("a node's name")?.text);
            self.expect(']')?;
        }
        let outputs = self.list('=', |p| p.name("the name of a value"))?;
        let (mut domain, mut op) = (String::new(), self.id("an operator")?.to_owned());
        while self.eat('.')? {
            if !domain.is_empty() {
                domain.push('.');
            }
            domain.push_str(&op);
            self.id("an operator")?.clone_into(&mut op);
        }
        if self.token == Token::Sign(':') {
            return fail(self.at, "overloads of functions are not supported");
        }
        let mut attrs = self.attributes()?;
        self.expect('(')?;
        let inputs = self.list(')', |p| match p.token {
            Token::Sign(',') => Ok(Name { at: p.at, text: String::new() }),
            _ => p.name("the name of a value"),
        })?;
        attrs.extend(self.attributes()?);
        Ok(Statement { at, label, outputs, domain, op, attrs, inputs })
    }
}
