//! The parser of programs.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tensor::{Constraints, DType, Dim, Tensor, Type};
use tokens::{Read, Tokens, fail};

use super::lines::Numbered;
use super::token::{Token, raw};
use super::{Document, array};
use crate::{Atom, Constant, Jaxpr, JaxprId, VarId};

/// The maximum nesting of jaxprs and parameters in the text, and of calls between jaxprs.
const DEPTH: usize = 48;
const HEIGHT: usize = 200;

/// The maximum length of a dimension expression.
const DIM_LENGTH: usize = 1024;

/// Words that cannot be names of variables.
pub(super) const KEYWORDS: [&str; 3] = ["lambda", "let", "in"];

/// The name of all variables that are never read.
pub(super) const UNUSED: &str = "_";

/// The keyword of a constraint on dimension variables.
pub(super) const WHERE: &str = "where";

/// The parser's state.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    tokens: Tokens<'a, Token<'a>>,
    depth: usize,
    /// The number of bytes that elided arrays may still take.
    left: usize,
    arrays: FxHashMap<u64, Tensor>,
    definitions: FxHashMap<u64, JaxprId>,
    /// For each jaxpr, the nesting depth of calls below it.
    heights: Vec<usize>,
    pub(super) stacks: Numbered,
    pub(super) document: Document,
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

/// The jaxpr that is being parsed, with its variables by name.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    pub(super) jaxpr: Jaxpr,
    vars: FxHashMap<&'a str, VarId>,
    /// The nesting depth of calls below it.
    pub(super) height: usize,
}

/// A variable as written in its definition.
#[derive(Debug)]
pub(super) struct Variable<'a> {
    at: usize,
    name: &'a str,
    ty: Type,
}

impl<'a> Scope<'a> {
    pub(super) fn define(&mut self, Variable { at, name, ty }: Variable<'a>) -> Read<VarId> {
        let id = VarId(u32::try_from(self.jaxpr.vars.len()).unwrap_or(u32::MAX));
        self.jaxpr.vars.push(ty);
        if name != UNUSED && self.vars.insert(name, id).is_some() {
            return fail(at, format!("`{name}` is defined twice"));
        }
        Ok(id)
    }
}

pub(super) fn document(text: &str, limit: usize) -> Read<Document> {
    let mut parser = Parser {
        tokens: Tokens::new(text)?,
        depth: 0,
        left: limit,
        arrays: FxHashMap::default(),
        definitions: FxHashMap::default(),
        heights: Vec::new(),
        stacks: Numbered::default(),
        document: Document::default(),
    };
    if parser.eat_word("model")? {
        parser.expect('[')?;
        let header = parser.params(&mut Scope::default())?;
        parser.document.header = header;
    }
    parser.constraints()?;
    while parser.eat('%')? {
        parser.array_definition()?;
    }
    while parser.eat('@')? {
        let (at, number) = parser.integer("the number of a jaxpr")?;
        parser.expect('=')?;
        let id = parser.jaxpr()?;
        if parser.definitions.insert(number, id).is_some() {
            return fail(at, format!("`@{number}` is defined twice"));
        }
    }
    let main = parser.jaxpr()?;
    parser.document.program.main = Some(main);
    parser.lines()?;
    if parser.token != Token::End {
        return parser.unexpected("the end of the text");
    }
    Ok(parser.document)
}

impl<'a> Parser<'a> {
    pub(super) fn eat_word(&mut self, word: &'static str) -> Read<bool> {
        self.eat_token(&Token::Word(word))
    }

    fn expect_word(&mut self, word: &'static str) -> Read<()> {
        self.expect_token(&Token::Word(word))
    }

    /// Parses a name, quoted or not.
    pub(super) fn name(&mut self, what: &str) -> Read<Arc<str>> {
        let name = match &self.token {
            Token::Word(word) => (*word).into(),
            Token::Quoted(text) => text.as_str().into(),
            _ => return self.unexpected(what),
        };
        self.advance()?;
        Ok(name)
    }

    pub(super) fn quoted(&mut self, what: &str) -> Read<Arc<str>> {
        let Token::Quoted(text) = &self.token else { return self.unexpected(what) };
        let text = text.as_str().into();
        self.advance()?;
        Ok(text)
    }

    /// Parses a non-negative integer. Returns it with its position.
    pub(super) fn integer(&mut self, what: &str) -> Read<(usize, u64)> {
        let at = self.at;
        let Token::Number(text) = self.token else { return self.unexpected(what) };
        let Ok(number) = text.parse() else { return self.unexpected(what) };
        self.advance()?;
        Ok((at, number))
    }

    /// Runs `read` one level deeper.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.depth += 1;
        if self.depth > DEPTH {
            return fail(self.at, "this is nested too deeply");
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Parses any number of constraints `where "b >= 4"`.
    fn constraints(&mut self) -> Read<()> {
        let mut constraints = Constraints::default();
        while self.eat_word(WHERE)? {
            let at = self.at;
            let text = self.quoted("a constraint in quotes")?;
            if text.len() > DIM_LENGTH {
                return fail(at, "the constraint is too long");
            }
            constraints.add(&text).or_else(|error| fail(at, error.to_string()))?;
        }
        self.document.program.constraints = Arc::new(constraints);
        Ok(())
    }

    /// Parses the dimension at `at`.
    pub(super) fn dim(&self, at: usize, text: &str) -> Read<Dim> {
        let constraints = &self.document.program.constraints;
        Dim::parse_with(text, Some(constraints)).or_else(|error| fail(at, error.to_string()))
    }

    /// Parses `f32[2,b + 1]`.
    pub(super) fn ty(&mut self) -> Read<Type> {
        let Token::Word(word) = self.token else {
            return self.unexpected("a type, such as f32[2]");
        };
        let Some(dtype) = DType::from_short_name(word) else {
            return fail(self.at, format!("expected an element type, found `{word}`"));
        };
        self.advance()?;
        if self.token != Token::Sign('[') {
            return self.unexpected("`[`");
        }
        let mut shape = Vec::new();
        loop {
            // Dimensions have a syntax of their own, so the text after the bracket is not
            // tokenised.
            let (at, text) = raw(&mut self.rest, &[',', ']'], DIM_LENGTH)?;
            if !text.is_empty() || !shape.is_empty() {
                shape.push(self.dim(at, text)?);
            }
            self.advance()?;
            if self.token == Token::Sign(']') {
                self.advance()?;
                return Ok(Type::new(dtype, shape));
            }
            if self.token != Token::Sign(',') || text.is_empty() {
                return self.unexpected("a dimension");
            }
        }
    }

    fn array_definition(&mut self) -> Read<()> {
        let (at, number) = self.integer("the number of an array")?;
        self.expect('=')?;
        let ty = self.ty()?;
        let tensor = if self.eat('%')? {
            let (at, same) = self.known_array()?;
            if same.dtype() != ty.dtype {
                return fail(at, format!("this array has type {}, not {ty}", same.ty()));
            }
            let view = same.reshaped(&array::shape(at, &ty)?);
            view.or_else(|error| fail(at, error.to_string()))?
        } else {
            self.data(&ty, None)?
        };
        match self.arrays.insert(number, tensor) {
            None => Ok(()),
            Some(_) => fail(at, format!("`%{number}` is defined twice")),
        }
    }

    fn known_array(&mut self) -> Read<(usize, Tensor)> {
        let (at, number) = self.integer("the number of an array")?;
        match self.arrays.get(&number) {
            Some(tensor) => Ok((at, tensor.clone())),
            None => fail(at, format!("`%{number}` is not defined")),
        }
    }

    /// Parses the elements of an array: `{1.0, 2.0}`, `base64 "…"` or `...`.
    pub(super) fn data(&mut self, ty: &Type, name: Option<&Arc<str>>) -> Read<Tensor> {
        let at = self.at;
        if self.eat_word("base64")? {
            let at = self.at;
            let text = self.quoted("the bytes in quotes")?;
            return array::from_base64(at, ty, &text);
        }
        if self.token == Token::Elided {
            self.advance()?;
            let number = self.document.elided.len();
            self.document.elided.push((name.cloned(), ty.clone()));
            return array::stand_in(at, ty, number, &mut self.left);
        }
        let bytes = self.elements(ty.dtype)?;
        array::from_bytes(at, ty, bytes)
    }

    /// Parses `{1.0, 2.0}`.
    pub(super) fn elements(&mut self, dtype: DType) -> Read<Vec<u8>> {
        self.expect('{')?;
        let mut bytes = Vec::new();
        while !self.eat('}')? {
            bytes.extend(self.element(dtype)?);
            if !self.eat(',')? && self.token != Token::Sign('}') {
                return self.unexpected("`,` or `}`");
            }
        }
        Ok(bytes)
    }

    pub(super) fn element(&mut self, dtype: DType) -> Read<Vec<u8>> {
        let at = self.at;
        match self.token {
            Token::Number(text) | Token::Word(text @ ("True" | "False")) => {
                self.advance()?;
                array::encode(dtype, text).or_else(|reason| fail(at, reason))
            }
            _ => self.unexpected("a number"),
        }
    }

    /// Parses `{ lambda a:f32[2] = …; b:f32[]. let … in (c,) }`.
    pub(super) fn jaxpr(&mut self) -> Read<JaxprId> {
        self.nested(Self::jaxpr_inside)
    }

    fn jaxpr_inside(&mut self) -> Read<JaxprId> {
        let at = self.at;
        self.expect('{')?;
        self.expect_word("lambda")?;
        let mut scope = Scope::default();
        while self.token != Token::Sign(';') {
            self.constant(&mut scope)?;
        }
        self.advance()?;
        while !self.eat('.')? {
            let input = self.define(&mut scope, "an input, such as a:f32[2], or `.`")?;
            scope.jaxpr.inputs.push(input);
        }
        self.expect_word("let")?;
        while !self.eat_word("in")? {
            self.eqn(&mut scope)?;
        }
        self.expect('(')?;
        while !self.eat(')')? {
            let result = self.atom(&scope)?;
            scope.jaxpr.outputs.push(result);
            if !self.eat(',')? && self.token != Token::Sign(')') {
                return self.unexpected("`,` or `)`");
            }
        }
        self.expect('}')?;
        if scope.height > HEIGHT {
            return fail(at, "calls of jaxprs are nested too deeply");
        }
        let id = JaxprId(u32::try_from(self.heights.len()).unwrap_or(u32::MAX));
        self.heights.push(scope.height);
        self.document.program.jaxprs.push(scope.jaxpr);
        Ok(id)
    }

    /// Parses the rest of `@3` after the `@`.
    pub(super) fn definition(&mut self) -> Read<JaxprId> {
        let (at, number) = self.integer("the number of a jaxpr")?;
        match self.definitions.get(&number) {
            Some(id) => Ok(*id),
            None => fail(at, format!("`@{number}` is not defined")),
        }
    }

    /// Records that the jaxpr of `scope` calls another one.
    pub(super) fn calls(&self, scope: &mut Scope<'_>, id: JaxprId) {
        scope.height = scope.height.max(self.heights[id.0 as usize] + 1);
    }

    /// Parses `a:f32[2] "name" = {1.0, 2.0}` or `a:f32[2] = %3`.
    fn constant(&mut self, scope: &mut Scope<'a>) -> Read<()> {
        let var = self.define(scope, "a constant, such as a:f32[] = {1.0}, or `;`")?;
        let name = match self.token {
            Token::Quoted(_) => Some(self.quoted("a name")?),
            _ => None,
        };
        self.expect('=')?;
        let ty = scope.jaxpr.ty(var).clone();
        let tensor = if self.eat('%')? {
            let (at, tensor) = self.known_array()?;
            if tensor.ty() != ty {
                return fail(at, format!("this array has type {}, not {ty}", tensor.ty()));
            }
            tensor
        } else {
            self.data(&ty, name.as_ref())?
        };
        scope.jaxpr.consts.push((var, Constant { tensor, name }));
        Ok(())
    }

    fn define(&mut self, scope: &mut Scope<'a>, what: &str) -> Read<VarId> {
        let variable = self.variable(what)?;
        scope.define(variable)
    }

    /// Parses the definition of a variable, such as `a:f32[2]`.
    pub(super) fn variable(&mut self, what: &str) -> Read<Variable<'a>> {
        let at = self.at;
        let Token::Word(name) = self.token else { return self.unexpected(what) };
        if KEYWORDS.contains(&name) {
            return self.unexpected(what);
        }
        self.advance()?;
        self.expect(':')?;
        Ok(Variable { at, name, ty: self.ty()? })
    }

    /// Parses a variable or a literal.
    pub(super) fn atom(&mut self, scope: &Scope<'a>) -> Read<Atom> {
        let at = self.at;
        match self.token {
            Token::Word(word) if !matches!(word, "True" | "False" | "base64") => {
                let Some(var) = scope.vars.get(word) else {
                    return fail(at, format!("the variable `{word}` is not defined"));
                };
                self.advance()?;
                Ok(Atom::Var(*var))
            }
            Token::Sign('{') | Token::Number(_) | Token::Word(_) | Token::Elided => {
                self.literal().map(Atom::Literal)
            }
            _ => self.unexpected("a variable or a literal"),
        }
    }

    /// Parses an array whose type follows its elements, such as `1.0:f32[]` or `{1, 2}:i32[2]`.
    pub(super) fn literal(&mut self) -> Read<Tensor> {
        // The type that follows determines the encoding of the elements before it.
        let start = self.tokens.clone();
        match self.token {
            Token::Sign('{') => {
                while self.token != Token::Sign('}') {
                    if self.token == Token::End {
                        return self.unexpected("`}`");
                    }
                    self.advance()?;
                }
                self.advance()?;
            }
            Token::Word("base64") => {
                self.advance()?;
                self.advance()?;
            }
            _ => drop(self.advance()?),
        }
        self.expect(':')?;
        let ty = self.ty()?;
        let behind = std::mem::replace(&mut self.tokens, start);
        let at = self.at;
        let tensor = match self.token {
            Token::Number(_) | Token::Word("True" | "False") => {
                let bytes = self.element(ty.dtype)?;
                array::from_bytes(at, &ty, bytes)?
            }
            _ => self.data(&ty, None)?,
        };
        self.tokens = behind;
        Ok(tensor)
    }
}
