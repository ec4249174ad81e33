//! Equations: `c:f32[2] = add[param=1] a b :: "scope" #3`.

use std::sync::Arc;

use super::jaxpr::{KEYWORDS, Parser, Scope};
use super::token::Token;
use crate::{Eqn, Params};
use tokens::Read;

impl<'a> Parser<'a> {
    /// Parses one equation of the jaxpr of `scope`.
    pub(super) fn eqn(&mut self, scope: &mut Scope<'a>) -> Read<()> {
        let mut results = Vec::new();
        while !self.eat('=')? {
            results.push(self.variable("a result, such as a:f32[2], `=` or `in`")?);
        }
        let primitive = self.name("the name of a primitive")?;
        let params = if self.eat('[')? { self.params(scope)? } else { Params::default() };
        let mut inputs = Vec::new();
        while self.is_operand() {
            inputs.push(self.atom(scope)?);
        }
        // Results are defined after the operands, which cannot refer to them.
        let outputs =
            results.into_iter().map(|result| scope.define(result)).collect::<Read<_>>()?;
        let (mut path, mut stack, mut external) = (Arc::from(""), None, None);
        if self.token == Token::Annotations {
            self.advance()?;
            if let Token::Quoted(_) = self.token {
                path = self.quoted("a scope")?;
            }
            if self.eat('#')? {
                let (_, number) = self.integer("the number of a stack")?;
                stack = Some(self.stacks.stack(number, &mut self.document.stacks));
            }
            if self.eat_word("external")? {
                external = Some(0);
                if !self.document.external.contains(&primitive) {
                    self.document.external.push(Arc::clone(&primitive));
                }
            }
        }
        scope.jaxpr.eqns.push(Eqn {
            primitive,
            inputs,
            outputs,
            params,
            stack,
            scope: path,
            external,
            functions: Arc::new([]),
        });
        Ok(())
    }

    /// Returns `true` if an operand follows, rather than the next equation or the end.
    fn is_operand(&self) -> bool {
        match self.token {
            Token::Word("True" | "False" | "base64") | Token::Elided | Token::Number(_) => true,
            Token::Word(word) => !KEYWORDS.contains(&word) && !self.is_before(&Token::Sign(':')),
            Token::Sign('{') => true,
            _ => false,
        }
    }
}
