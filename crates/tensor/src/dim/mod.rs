//! Dimensions: a number, or a symbolic expression in a normal form that makes equal sizes compare
//! equal.
//!
//! An expression is an integer polynomial over atoms; an atom is a variable or a `floordiv`, `mod`,
//! `max` or `min` of two expressions. The text form is that of `jax.export.symbolic_shape`.

mod text;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

pub use self::text::DimError;
use crate::Constraints;

/// One dimension of a shape.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dim {
    /// A number.
    Known(i64),
    /// An expression over the model's dimension variables. Never a plain number.
    Symbolic(Arc<Polynomial>),
}

/// A sum of monomials, each with a non-zero factor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Polynomial(BTreeMap<Monomial, i64>);

/// A product of atoms with their powers; empty for the constant term.
type Monomial = BTreeMap<Atom, u32>;

/// A variable or a non-polynomial operation: the building block of a polynomial.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// A dimension variable.
    Var(Variable),
    /// An operation that is not a polynomial.
    Op(DimOp, Dim, Dim),
}

/// A dimension variable, identified by its name because a model has one scope of variables.
#[derive(Clone, Debug)]
pub struct Variable {
    name: Arc<str>,
    constraints: Option<Arc<Constraints>>,
}

impl Variable {
    /// Returns the variable's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for Variable {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Variable {}

impl Hash for Variable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for Variable {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Variable {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

/// The operations in an expression other than `+`, `-` and `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DimOp {
    FloorDiv,
    Mod,
    Max,
    Min,
}

impl DimOp {
    const ALL: [(DimOp, &'static str); 4] = [
        (DimOp::FloorDiv, "floordiv"),
        (DimOp::Mod, "mod"),
        (DimOp::Max, "max"),
        (DimOp::Min, "min"),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Applies the operation to numbers, rounding towards minus infinity. Returns `None` for a
    /// division by zero.
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            // The standard library rounds towards zero.
            DimOp::FloorDiv => Some(a.checked_div(b)? - i64::from(is_rounded_up(a % b, b))),
            DimOp::Mod => {
                a.checked_rem(b).map(|rest| if is_rounded_up(rest, b) { rest + b } else { rest })
            }
            DimOp::Max => Some(a.max(b)),
            DimOp::Min => Some(a.min(b)),
        }
    }
}

/// Returns `true` if a quotient by `divisor` with this remainder is negative and was rounded towards zero.
fn is_rounded_up(rest: i64, divisor: i64) -> bool {
    rest != 0 && (rest < 0) != (divisor < 0)
}

impl Dim {
    /// Creates a dimension variable without constraints.
    pub fn var(name: &str) -> Self {
        Self::atom(Atom::Var(Variable { name: name.into(), constraints: None }))
    }

    /// Creates the dimension that consists of this atom alone.
    pub fn atom(atom: Atom) -> Self {
        let monomial = Monomial::from([(atom, 1)]);
        Dim::Symbolic(Arc::new(Polynomial(BTreeMap::from([(monomial, 1)]))))
    }

    /// Returns all sizes, if they are known.
    pub fn all_known(dims: &[Dim]) -> Option<Vec<i64>> {
        dims.iter().map(Dim::as_known).collect()
    }

    /// Returns the number, if the dimension is known.
    pub fn as_known(&self) -> Option<i64> {
        match self {
            Dim::Known(n) => Some(*n),
            Dim::Symbolic(_) => None,
        }
    }

    /// Returns the variable's name, if the dimension is a single variable.
    pub fn as_var(&self) -> Option<&str> {
        let Dim::Symbolic(poly) = self else { return None };
        let mut terms = poly.0.iter();
        let (Some((monomial, 1)), None) = (terms.next(), terms.next()) else { return None };
        let mut atoms = monomial.iter();
        match (atoms.next(), atoms.next()) {
            (Some((Atom::Var(variable), 1)), None) => Some(&variable.name),
            _ => None,
        }
    }

    /// Returns the terms of the sum: each a factor and the atoms that it multiplies, with their
    /// powers.
    pub fn terms(&self) -> Vec<(i64, Vec<(Atom, u32)>)> {
        match self {
            Dim::Known(n) => vec![(*n, Vec::new())],
            Dim::Symbolic(poly) => poly
                .0
                .iter()
                .rev()
                .map(|(m, k)| (*k, m.iter().map(|(a, p)| (a.clone(), *p)).collect()))
                .collect(),
        }
    }

    fn term_count(&self) -> usize {
        match self {
            Dim::Known(_) => 1,
            Dim::Symbolic(poly) => poly.0.len(),
        }
    }

    /// Applies an operation of [`DimOp`], which is computed if both operands are known.
    pub fn op(op: DimOp, a: &Dim, b: &Dim) -> Dim {
        if let (Dim::Known(x), Dim::Known(y)) = (a, b)
            && let Some(value) = op.apply(*x, *y)
        {
            return Dim::Known(value);
        }
        match (op, b) {
            (DimOp::FloorDiv | DimOp::Mod, Dim::Known(k)) if *k >= 1 => {
                let (quotient, rest) = a.split_multiples(*k);
                if rest == Dim::Known(0) {
                    return if op == DimOp::FloorDiv { quotient } else { rest };
                }
                if op == DimOp::FloorDiv && quotient != Dim::Known(0) {
                    return quotient + Dim::op(op, &rest, b);
                }
                // JAX writes a quotient that is rounded up in two ways: ⌈a/k⌉ = ⌊(a+k-1)/k⌋.
                if op == DimOp::FloorDiv && a.has_negative_terms_only() {
                    let rounded_up = Dim::op(op, &(Dim::Known(k - 1) - a.clone()), b);
                    return Dim::Known(0) - rounded_up;
                }
            }
            (DimOp::FloorDiv, b) if a == b => return Dim::Known(1),
            (DimOp::Max | DimOp::Min, b) if a == b => return a.clone(),
            _ => {}
        }
        Dim::atom(Atom::Op(op, a.clone(), b.clone()))
    }

    /// Returns `true` if all terms except the constant are negative.
    fn has_negative_terms_only(&self) -> bool {
        let polynomial = self.polynomial();
        let mut terms = polynomial.0.iter().filter(|(monomial, _)| !monomial.is_empty());
        !matches!(self, Dim::Known(_)) && terms.all(|(_, factor)| *factor < 0)
    }

    /// Splits `self` into `k * quotient + rest`, where the quotient takes every term that `k`
    /// divides.
    fn split_multiples(&self, k: i64) -> (Dim, Dim) {
        let mut quotient = BTreeMap::new();
        let mut rest = BTreeMap::new();
        for (monomial, factor) in self.polynomial().0 {
            if factor % k == 0 {
                quotient.insert(monomial, factor / k);
            } else {
                rest.insert(monomial, factor);
            }
        }
        (Dim::from_polynomial(quotient), Dim::from_polynomial(rest))
    }

    fn polynomial(&self) -> Polynomial {
        match self {
            Dim::Known(0) => Polynomial::default(),
            Dim::Known(n) => Polynomial(BTreeMap::from([(Monomial::new(), *n)])),
            Dim::Symbolic(poly) => (**poly).clone(),
        }
    }

    fn from_polynomial(mut terms: BTreeMap<Monomial, i64>) -> Dim {
        terms.retain(|_, factor| *factor != 0);
        match terms.len() {
            0 => Dim::Known(0),
            1 if terms.contains_key(&Monomial::new()) => Dim::Known(terms[&Monomial::new()]),
            _ => Dim::Symbolic(Arc::new(Polynomial(terms))),
        }
    }

    /// Evaluates the dimension with the values of variables from `env`. Returns `None` if a value
    /// is missing or the arithmetic overflows.
    pub fn eval(&self, env: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let Dim::Symbolic(poly) = self else { return self.as_known() };
        let mut sum = 0i64;
        for (monomial, factor) in &poly.0 {
            let mut product = *factor;
            for (atom, power) in monomial {
                let value = match atom {
                    Atom::Var(variable) => env(&variable.name)?,
                    Atom::Op(op, a, b) => op.apply(a.eval(env)?, b.eval(env)?)?,
                };
                product = product.checked_mul(value.checked_pow(*power)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// Returns the constraints on its variables.
    pub fn constraints(&self) -> Option<&Arc<Constraints>> {
        let Dim::Symbolic(poly) = self else { return None };
        poly.0.keys().flat_map(BTreeMap::keys).find_map(|atom| match atom {
            Atom::Var(variable) => variable.constraints.as_ref().filter(|known| !known.is_empty()),
            Atom::Op(_, a, b) => a.constraints().or_else(|| b.constraints()),
        })
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Dim::Known(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Dim {
    fn from(n: i64) -> Self {
        Dim::Known(n)
    }
}

impl Add for Dim {
    type Output = Dim;
    fn add(self, other: Dim) -> Dim {
        if let (Dim::Known(a), Dim::Known(b)) = (&self, &other) {
            return Dim::Known(a.saturating_add(*b));
        }
        let mut terms = self.polynomial().0;
        for (monomial, factor) in other.polynomial().0 {
            let sum = terms.entry(monomial).or_default();
            *sum = sum.saturating_add(factor);
        }
        Dim::from_polynomial(terms)
    }
}

impl Neg for Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        Dim::Known(-1) * self
    }
}

impl Sub for Dim {
    type Output = Dim;
    fn sub(self, other: Dim) -> Dim {
        self + -other
    }
}

impl Mul for Dim {
    type Output = Dim;
    #[expect(clippy::suspicious_arithmetic_impl, reason = "exponents of one atom add up")]
    fn mul(self, other: Dim) -> Dim {
        if let (Dim::Known(a), Dim::Known(b)) = (&self, &other) {
            return Dim::Known(a.saturating_mul(*b));
        }
        let mut terms = BTreeMap::<Monomial, i64>::new();
        for (left, a) in &self.polynomial().0 {
            for (right, b) in &other.polynomial().0 {
                let mut monomial = left.clone();
                for (atom, power) in right {
                    *monomial.entry(atom.clone()).or_default() += power;
                }
                let sum = terms.entry(monomial).or_default();
                *sum = sum.saturating_add(a.saturating_mul(*b));
            }
        }
        Dim::from_polynomial(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(text: &str) -> Dim {
        Dim::parse(text).unwrap()
    }

    #[test]
    fn equal_sizes_are_equal() {
        assert_eq!(dim("b + b"), dim("2*b"));
        assert_eq!(dim("(b + 1)*(b - 1)"), dim("b^2 - 1"));
        assert_eq!(dim("4*b - 2*b - 2*b + 3"), Dim::Known(3));
        assert_eq!(dim("floordiv(4*b + 3, 4)"), dim("b + floordiv(3, 4)"));
        assert_eq!(dim("floordiv(4*b, 4)"), dim("b"));
        assert_eq!(dim("mod(6*b, 3)"), Dim::Known(0));
        assert_eq!(dim("floordiv(b + 5, 1)"), dim("b + 5"));
        assert_eq!(dim("mod(b + 5, 1)"), Dim::Known(0));
        assert_eq!(dim("floordiv(b + 1, b + 1)"), Dim::Known(1));
        assert_eq!(dim("max(b, b)"), dim("b"));
        assert_eq!(dim("min(b + t, t + b)"), dim("b + t"));
        assert_ne!(dim("max(b, t)"), dim("b"));
        assert_ne!(dim("floordiv(b, t)"), Dim::Known(1));
        assert_ne!(dim("mod(b, 2)"), Dim::Known(0));
    }

    #[test]
    fn evaluation_rounds_down() {
        let env = |name: &str| (name == "b").then_some(7);
        assert_eq!(dim("floordiv(b, 2)*2 + mod(b, 4)").eval(&env), Some(9));
        assert_eq!(dim("floordiv(-b, 2)").eval(&env), Some(-4));
        assert_eq!(dim("mod(-b, 4)").eval(&env), Some(1));
        assert_eq!(dim("t").eval(&env), None);
    }

    #[test]
    fn quotients_rounded_up_have_one_form() {
        assert_eq!(dim("-floordiv(-b, 2)"), dim("floordiv(b + 1, 2)"));
        assert_eq!(dim("-floordiv(-b - 1, 4)"), dim("floordiv(b + 4, 4)"));
        assert_eq!(
            dim("floordiv(-b, 2)*floordiv(-t, 2)"),
            dim("floordiv(b + 1, 2)*floordiv(t + 1, 2)")
        );
        for b in 0..9 {
            let env = |_: &str| Some(b);
            assert_eq!(dim("floordiv(-3*b + 1, 4)").eval(&env), Some((1 - 3 * b).div_euclid(4)));
        }
    }
}
