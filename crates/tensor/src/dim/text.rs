//! The text form of dimensions, as `jax.export.symbolic_shape` reads it.

use std::fmt;
use std::sync::Arc;

use super::{Atom, Dim, DimOp, Variable};
use crate::Constraints;

/// A parse error in the text of a dimension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the dimension `{text}`: {reason} at column {column}")]
pub struct DimError {
    text: String,
    reason: String,
    column: usize,
}

impl DimError {
    pub(crate) fn new(text: &str, reason: &str, at: usize) -> Self {
        Self { text: text.to_owned(), reason: reason.to_owned(), column: at + 1 }
    }
}

impl Dim {
    /// Parses the text form, such as `4*b + 3` or `floordiv(b, 2)`.
    pub fn parse(text: &str) -> Result<Dim, DimError> {
        Self::parse_with(text, None)
    }

    /// Parses the text form, with variables subject to `constraints`.
    pub fn parse_with(text: &str, constraints: Option<&Arc<Constraints>>) -> Result<Dim, DimError> {
        let mut parser = Parser { text, constraints, at: 0, depth: 0 };
        let dim = parser.sum()?;
        parser.skip_spaces();
        if parser.at < text.len() {
            return Err(parser.error("unexpected text"));
        }
        Ok(dim)
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Dim::Known(n) = self {
            return write!(f, "{n}");
        }
        for (i, (factor, atoms)) in self.terms().iter().enumerate() {
            let sign = match (i, *factor < 0) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            };
            f.write_str(sign)?;
            let size = factor.unsigned_abs();
            if size != 1 || atoms.is_empty() {
                write!(f, "{size}")?;
            }
            for (j, (atom, power)) in atoms.iter().enumerate() {
                if j > 0 || size != 1 {
                    f.write_str("*")?;
                }
                match atom {
                    Atom::Var(variable) => f.write_str(&variable.name)?,
                    Atom::Op(op, a, b) => write!(f, "{}({a}, {b})", op.name())?,
                }
                if *power > 1 {
                    write!(f, "^{power}")?;
                }
            }
        }
        Ok(())
    }
}

/// A recursive-descent parser; `depth` bounds the recursion on hostile input.
struct Parser<'a> {
    text: &'a str,
    constraints: Option<&'a Arc<Constraints>>,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn error(&self, reason: &str) -> DimError {
        DimError::new(self.text, reason, self.at)
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), DimError> {
        if self.eat(token) { Ok(()) } else { Err(self.error(&format!("expected `{token}`"))) }
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let len = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn sum(&mut self) -> Result<Dim, DimError> {
        self.depth += 1;
        if self.depth > 64 {
            return Err(self.error("too deeply nested"));
        }
        let mut sum = self.product()?;
        loop {
            if self.eat("+") {
                sum = sum + self.product()?;
            } else if self.eat("-") {
                sum = sum - self.product()?;
            } else {
                self.depth -= 1;
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<Dim, DimError> {
        let mut negative = false;
        while self.eat("-") {
            negative = !negative;
        }
        let mut product = self.power()?;
        while self.eat("*") {
            let factor = self.power()?;
            product = self.times(product, factor)?;
        }
        Ok(if negative { -product } else { product })
    }

    /// Multiplies, unless the product has too many terms: a short text can ask for billions.
    fn times(&self, a: Dim, b: Dim) -> Result<Dim, DimError> {
        if a.term_count().saturating_mul(b.term_count()) > 1024 {
            return Err(self.error("the expression has too many terms"));
        }
        Ok(a * b)
    }

    fn power(&mut self) -> Result<Dim, DimError> {
        let base = self.primary()?;
        if !self.eat("^") {
            return Ok(base);
        }
        let Some(power @ 0..=64) = self.number()?.as_known() else {
            return Err(self.error("the power is too large"));
        };
        (0..power).try_fold(Dim::Known(1), |product, _| self.times(product, base.clone()))
    }

    fn number(&mut self) -> Result<Dim, DimError> {
        self.skip_spaces();
        let parsed = self.take_while(|c| c.is_ascii_digit()).parse();
        parsed.map(Dim::Known).map_err(|_| self.error("expected a number"))
    }

    fn primary(&mut self) -> Result<Dim, DimError> {
        self.skip_spaces();
        if self.eat("(") {
            let inner = self.sum()?;
            self.expect(")")?;
            return Ok(inner);
        }
        match self.text[self.at..].chars().next() {
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => {
                let name = self.take_while(|c| c.is_alphanumeric() || c == '_').to_owned();
                match DimOp::ALL.iter().find(|(_, text)| *text == name) {
                    Some((op, _)) if self.eat("(") => {
                        let a = self.sum()?;
                        self.expect(",")?;
                        let b = self.sum()?;
                        self.expect(")")?;
                        Ok(Dim::op(*op, &a, &b))
                    }
                    _ => {
                        let constraints = self.constraints.cloned();
                        Ok(Dim::atom(Atom::Var(Variable { name: name.into(), constraints })))
                    }
                }
            }
            _ => Err(self.error("expected a number, a variable or `(`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(text: &str) -> Dim {
        Dim::parse(text).unwrap()
    }

    #[test]
    fn text_round_trips() {
        for text in ["b", "-b + 3", "4*b + 3", "b^2*t", "floordiv(b + 1, 2) + t", "max(b, 2)"] {
            assert_eq!(dim(&dim(text).to_string()), dim(text), "{text}");
        }
    }

    #[test]
    fn bad_text_is_an_error() {
        for text in ["", "b +", "floordiv(b)", "b c", "99999999999999999999", "b^99"] {
            assert!(Dim::parse(text).is_err(), "{text}");
        }
        assert!(Dim::parse(&"(".repeat(10_000)).is_err());
        assert!(Dim::parse("(a + b + c + d + e + f + g + h)^64").is_err());
        assert_eq!(dim(&format!("{}b", "-".repeat(100_000))), dim("b"));
    }

    #[test]
    fn variables_may_have_names_of_operations() {
        for name in ["mod", "max", "min", "floordiv"] {
            assert_eq!(dim(name), Dim::var(name));
            assert_eq!(
                dim(&format!("{name}*2 + 1")),
                Dim::var(name) * Dim::Known(2) + Dim::Known(1)
            );
        }
    }

    #[test]
    fn nesting_is_limited() {
        let nested =
            |depth: usize| Dim::parse(&format!("{}b{}", "(".repeat(depth), ")".repeat(depth)));
        assert_eq!(nested(63).unwrap(), Dim::var("b"));
        assert!(nested(64).is_err());
    }
}
