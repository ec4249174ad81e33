//! Proofs about symbolic sizes: lower bounds and equality.
//!
//! In JAX a dimension variable is at least one. Everything here follows from that and from the
//! constraints of the variables' scope.

use crate::{Atom, Constraints, Dim, DimOp, Type};

/// The number of substitutions that a proof may make. The cases of nested `max` and `min` multiply.
const BUDGET: u32 = 64;

/// The number of substitutions if there are constraints, which multiply the possible next steps.
const BUDGET_WITH_CONSTRAINTS: u32 = 256;

/// Returns a lower bound of `dim`, if one is found.
pub fn lower_bound(dim: &Dim) -> Option<i64> {
    let plain = Proof { facts: Vec::new(), budget: BUDGET }.lower(dim);
    let Some(constraints) = dim.constraints().filter(|_| dim.as_known().is_none()) else {
        return plain;
    };
    plain.max(Proof::with(constraints).lower(dim))
}

/// Returns `true` if `dim` is provably at least `least`.
pub fn at_least(dim: &Dim, least: i64) -> bool {
    lower_bound(dim).is_some_and(|bound| bound >= least)
}

/// Returns `true` if `dim` is provably not zero, even if models run with variables that are zero.
/// Only variables with a constraint such as `T >= 2` are taken at their word.
pub fn is_never_zero(dim: &Dim) -> bool {
    let terms = dim.terms();
    let is_term_of =
        |atoms: &[(Atom, u32)], test: fn(&Atom) -> bool| atoms.iter().all(|(atom, _)| test(atom));
    let is_bounded = |atom: &Atom| at_least(&Dim::atom(atom.clone()), 2);
    let is_var = |atom: &Atom| matches!(atom, Atom::Var(_));
    if terms.iter().all(|(_, atoms)| is_term_of(atoms, is_var) && is_term_of(atoms, is_bounded)) {
        return at_least(dim, 1);
    }
    terms.iter().all(|(factor, atoms)| *factor > 0 && is_term_of(atoms, is_var))
        && terms.iter().any(|(_, atoms)| is_term_of(atoms, is_bounded))
}

/// Returns `true` if two sizes are provably equal, even if their expressions differ.
pub fn same(a: &Dim, b: &Dim) -> bool {
    if a == b {
        return true;
    }
    if let (Dim::Known(_), Dim::Known(_)) = (a, b) {
        return false;
    }
    let difference = a.clone() - b.clone();
    at_least(&difference, 0) && at_least(&-difference, 0)
}

/// Returns `true` if two shapes are provably equal.
pub fn same_shape(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Returns `true` if two types are provably equal.
pub fn same_type(a: &Type, b: &Type) -> bool {
    a.dtype == b.dtype && same_shape(&a.shape, &b.shape)
}

/// Returns the larger size, written as `max` only if neither is provably the larger one.
pub fn max(a: &Dim, b: &Dim) -> Dim {
    pick(DimOp::Max, a, b)
}

/// Returns the smaller size, written as `min` only if neither is provably the smaller one.
pub fn min(a: &Dim, b: &Dim) -> Dim {
    pick(DimOp::Min, a, b)
}

fn pick(op: DimOp, a: &Dim, b: &Dim) -> Dim {
    if let (Dim::Known(_), Dim::Known(_)) = (a, b) {
        return Dim::op(op, a, b);
    }
    let difference = a.clone() - b.clone();
    let (larger, smaller) = if at_least(&difference, 0) {
        (a, b)
    } else if at_least(&-difference, 0) {
        (b, a)
    } else {
        return Dim::op(op, a, b);
    };
    if op == DimOp::Max { larger.clone() } else { smaller.clone() }
}

/// Returns `size`, or zero if it is negative.
pub fn non_negative(size: &Dim) -> Dim {
    max(size, &Dim::Known(0))
}

/// Returns `a` divided by the positive number `b`, rounded up.
pub fn ceil_div(a: Dim, b: i64) -> Dim {
    Dim::op(DimOp::FloorDiv, &(a + Dim::Known(b - 1)), &Dim::Known(b))
}

/// The search for a bound.
#[derive(Debug)]
struct Proof {
    /// Expressions that are at least zero and have not been used yet.
    facts: Vec<Dim>,
    /// The number of substitutions left.
    budget: u32,
}

/// Returns `true` if a bound has to hold for each operand of the operation rather than for one of
/// them.
fn is_case(op: DimOp, factor: i64) -> bool {
    matches!((op, factor > 0), (DimOp::Max, false) | (DimOp::Min, true))
}

/// Returns the quotient by a positive number, rounded up.
fn div_up(a: i64, k: i64) -> i64 {
    a.saturating_neg().div_euclid(k).saturating_neg()
}

impl Proof {
    fn with(constraints: &Constraints) -> Self {
        Self { facts: constraints.facts().collect(), budget: BUDGET_WITH_CONSTRAINTS }
    }

    fn lower(&mut self, dim: &Dim) -> Option<i64> {
        if let Dim::Known(n) = dim {
            return Some(*n);
        }
        self.budget = self.budget.checked_sub(1)?;
        self.by_structure(dim).max(self.by_facts(dim))
    }

    fn by_structure(&mut self, dim: &Dim) -> Option<i64> {
        let terms = dim.terms();
        // Cases that must all hold come first, because later choices may differ between them.
        for cases_only in [true, false] {
            for (factor, atoms) in &terms {
                if let [(Atom::Op(op, a, b), 1)] = atoms.as_slice()
                    && (!cases_only || is_case(*op, *factor))
                {
                    let term = Dim::Known(*factor) * Dim::op(*op, a, b);
                    return self.without_op((*factor, *op), a, b, &(dim.clone() - term));
                }
            }
        }
        self.lower_polynomial(&terms)
    }

    /// Returns the best bound found by subtracting a multiple of a fact so that a term vanishes.
    fn by_facts(&mut self, dim: &Dim) -> Option<i64> {
        let mut best = None;
        for at in 0..self.facts.len() {
            let fact = self.facts[at].clone();
            for (times, multiple) in cancelling(dim, &fact) {
                let rest = Dim::Known(times) * dim.clone() - Dim::Known(multiple) * fact.clone();
                self.facts.remove(at);
                let bound = self.lower(&rest);
                self.facts.insert(at, fact.clone());
                best = best.max(bound.map(|bound| div_up(bound, times)));
            }
        }
        best
    }

    /// Bounds `factor * op(a, b) + rest` by replacing the operation with simpler expressions.
    fn without_op(
        &mut self,
        (factor, op): (i64, DimOp),
        a: &Dim,
        b: &Dim,
        rest: &Dim,
    ) -> Option<i64> {
        let with = |dim: Dim| rest.clone() + Dim::Known(factor) * dim;
        let grows = factor > 0;
        match op {
            DimOp::Max | DimOp::Min => {
                let (x, y) = (self.lower(&with(a.clone())), self.lower(&with(b.clone())));
                if is_case(op, factor) { Some(x?.min(y?)) } else { x.max(y) }
            }
            DimOp::Mod => {
                if self.lower(b)? < 1 {
                    return None;
                }
                let extreme = if grows { Dim::Known(0) } else { b.clone() - Dim::Known(1) };
                let by_range = self.lower(&with(extreme));
                let by_quotient = b.as_known().and_then(|_| {
                    let quotient = Dim::op(DimOp::FloorDiv, a, b);
                    self.lower(&with(a.clone() - b.clone() * quotient))
                });
                let natural = self.lower(a).is_some_and(|least| least >= 0);
                let by_whole = if natural && !grows { self.lower(&with(a.clone())) } else { None };
                by_range.max(by_quotient).max(by_whole)
            }
            DimOp::FloorDiv => match b {
                // k * (a // k) is between a - (k - 1) and a.
                Dim::Known(k) if *k > 0 => {
                    let bound = if grows { a.clone() - Dim::Known(k - 1) } else { a.clone() };
                    let scaled = Dim::Known(*k) * rest.clone() + Dim::Known(factor) * bound;
                    Some(div_up(self.lower(&scaled)?, *k))
                }
                _ => {
                    let natural = self.lower(a)? >= 0 && self.lower(b)? >= 1;
                    let bound = if grows { Dim::Known(0) } else { a.clone() };
                    if natural { self.lower(&with(bound)) } else { None }
                }
            },
        }
    }

    /// Bounds a polynomial by its value where every atom is minimal, if it never decreases from
    /// there.
    fn lower_polynomial(&mut self, terms: &[(i64, Vec<(Atom, u32)>)]) -> Option<i64> {
        let mut shifted = Dim::Known(0);
        for (factor, atoms) in terms {
            let mut product = Dim::Known(*factor);
            for (atom, power) in atoms {
                let above = match atom {
                    Atom::Var(variable) => {
                        let atom = Dim::atom(atom.clone());
                        Dim::var(variable.name()) + Dim::Known(self.least(&atom))
                    }
                    Atom::Op(op, a, b) => {
                        let whole = Dim::op(*op, a, b);
                        Dim::var(&format!("#{whole}")) + Dim::Known(self.lower(&whole)?)
                    }
                };
                for _ in 0..*power {
                    product = product * above.clone();
                }
            }
            shifted = shifted + product;
        }
        let mut least = 0;
        for (factor, atoms) in shifted.terms() {
            if atoms.is_empty() {
                least = factor;
            } else if factor < 0 {
                return None;
            }
        }
        Some(least)
    }

    /// Returns the least value of a variable that follows from the facts about it alone.
    fn least(&self, variable: &Dim) -> i64 {
        let bounds = self.facts.iter().filter_map(|fact| {
            let [(factor, atoms), (offset, constant)] = &fact.terms()[..] else { return None };
            let [(atom, 1)] = &atoms[..] else { return None };
            let about = Dim::atom(atom.clone()) == *variable && *factor > 0;
            (about && constant.is_empty()).then(|| div_up(offset.saturating_neg(), *factor))
        });
        bounds.fold(1, i64::max)
    }
}

/// Returns, for each term that `fact` and `dim` share with the same sign, the multiples of `dim`
/// and of the fact that make the term equal in both.
fn cancelling(dim: &Dim, fact: &Dim) -> Vec<(i64, i64)> {
    let known = fact.terms();
    let mut found = Vec::new();
    for (factor, atoms) in dim.terms().iter().filter(|(_, atoms)| !atoms.is_empty()) {
        let same = known
            .iter()
            .find(|(other, others)| others == atoms && factor.signum() == other.signum());
        if let Some((other, _)) = same {
            let (a, b) = (factor.abs(), other.abs());
            let shared = gcd(a, b);
            let pair = (b / shared, a / shared);
            if !found.contains(&pair) {
                found.push(pair);
            }
        }
    }
    found
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn dim(text: &str) -> Dim {
        Dim::parse(text).unwrap()
    }

    #[test]
    fn bounds_are_found() {
        for (text, expected) in [
            ("7", Some(7)),
            ("b", Some(1)),
            ("2*b + t - 3", Some(0)),
            ("b - t", None),
            ("-b", None),
            ("b*t - b", Some(0)),
            ("floordiv(b, 3)", Some(0)),
            ("floordiv(b - 3, 2) + 1", Some(0)),
            ("b - floordiv(b, 2)", Some(1)),
            ("b - min(b, 3)", Some(0)),
            ("max(b - 3, 0)", Some(0)),
            ("min(b, 3)", Some(1)),
            ("2 - mod(b, 3)", Some(0)),
            ("b - mod(b, 3)", Some(0)),
            ("t*floordiv(b, 2)", Some(0)),
            ("floordiv(b, t)", Some(0)),
            ("b - floordiv(b, t)", Some(0)),
            ("max(b, t) - t", Some(0)),
            ("mod(3, b)", Some(0)),
            ("b - mod(3, b)", Some(1)),
            ("3 - mod(3, b)", Some(0)),
            ("t*max(b, 3)", Some(3)),
            ("2*t*max(b, 3) - t", Some(5)),
            ("floordiv(b - 1, t)", Some(0)),
            ("floordiv(b - 2, t)", None),
            ("b - 1 - mod(b - 1, t)", Some(0)),
        ] {
            assert_eq!(lower_bound(&dim(text)), expected, "{text}");
        }
    }

    #[test]
    fn sizes_that_may_be_zero_when_a_model_runs() {
        for (text, expected) in [
            ("3", true),
            ("0", false),
            ("b", false),
            ("2*b", false),
            ("b*t", false),
            ("b + 1", true),
            ("b*t + 2", true),
            ("b - 1", false),
            ("max(b, 3)", false),
        ] {
            assert_eq!(is_never_zero(&dim(text)), expected, "{text}");
        }
    }

    /// Returns a random expression in `b` and `t`.
    fn random(next: &mut impl FnMut(i64) -> i64, depth: u32) -> Dim {
        let mut inner = || random(next, depth.saturating_sub(1));
        let (x, y) = if depth > 0 { (inner(), inner()) } else { (dim("b"), dim("t")) };
        let number = Dim::Known(next(9) - 4);
        match next(if depth > 0 { 8 } else { 3 }) {
            0 => number,
            1 => x,
            2 => y,
            3 => x + y,
            4 => x * number,
            5 => Dim::op(DimOp::Max, &x, &y),
            6 => Dim::op(DimOp::Min, &x, &y),
            _ => {
                let op = if next(2) == 0 { DimOp::FloorDiv } else { DimOp::Mod };
                let by = Dim::Known(next(4) + 1);
                Dim::op(op, &x, if next(4) == 0 { &y } else { &by })
            }
        }
    }

    #[test]
    fn bounds_hold() {
        let mut state = 1u64;
        let mut next = |below: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            i64::try_from(state >> 33).unwrap() % below
        };
        type Holds = fn(i64, i64) -> bool;
        let scopes: [(&[&str], Holds); 4] = [
            (&[], |_, _| true),
            (&["b >= 3", "t <= 5"], |b, t| b >= 3 && t <= 5),
            (&["b >= t + 1", "mod(t, 2) == 0"], |b, t| b > t && t % 2 == 0),
            (&["2*b >= 3*t", "b <= 7"], |b, t| 2 * b >= 3 * t && b <= 7),
        ];
        for (constraints, holds) in scopes {
            let mut scope = Constraints::default();
            constraints.iter().for_each(|text| scope.add(text).unwrap());
            let scope = Arc::new(scope);
            let mut found = 0;
            for _ in 0..400 {
                let dim = random(&mut next, 3).to_string();
                let dim = Dim::parse_with(&dim, Some(&scope)).unwrap();
                let Some(bound) = lower_bound(&dim) else { continue };
                found += 1;
                for (b, t) in (1..9).flat_map(|b| (1..9).map(move |t| (b, t))) {
                    let value = dim.eval(&|name| Some(if name == "b" { b } else { t }));
                    let wrong = holds(b, t) && value.is_some_and(|value| value < bound);
                    assert!(!wrong, "{dim} >= {bound} if {constraints:?}: {b}, {t}");
                }
            }
            assert!(found > 100, "{found}");
        }
    }

    #[test]
    fn equal_sizes_are_recognised() {
        for (a, b) in [
            ("-floordiv(-b, 2)", "floordiv(b + 1, 2)"),
            ("floordiv(b + 5, 2)", "floordiv(b + 3, 2) + 1"),
            ("max(b - 3, 0)", "max(0, b - 3)"),
            ("b - min(b, 3)", "max(b - 3, 0)"),
            ("mod(b, 3)", "b - 3*floordiv(b, 3)"),
        ] {
            assert!(same(&dim(a), &dim(b)), "{a} = {b}");
        }
        for (a, b) in [("b", "t"), ("b", "3"), ("floordiv(b, 2)", "floordiv(b + 1, 2)")] {
            assert!(!same(&dim(a), &dim(b)), "{a} != {b}");
        }
    }

    #[test]
    fn constraints_decide() {
        let proved = |constraints: &[&str], text: &str, least: i64| {
            let mut scope = Constraints::default();
            constraints.iter().for_each(|text| scope.add(text).unwrap());
            let dim = Dim::parse_with(text, Some(&Arc::new(scope))).unwrap();
            at_least(&dim, least)
        };
        for (constraints, text, least) in [
            (&["T >= 4"][..], "T - 3", 1),
            (&["4 <= T"], "min(T, 3) - 3", 0),
            (&["T <= 8"], "8 - T", 0),
            (&["T <= 8"], "min(T, 8) - T", 0),
            (&["T >= 2*S"], "T - S", 1),
            (&["2*T >= 7"], "T", 4),
            (&["T >= 2", "S >= 3"], "T*S", 6),
            (&["T >= S", "S >= U"], "T - U", 0),
            (&["mod(T, 4) == 0"], "0 - mod(T, 4)", 0),
            (&["4*floordiv(T, 4) == T"], "4*floordiv(T, 4) - T", 0),
            (&["T == 2*S"], "2*S - T", 0),
        ] {
            assert!(proved(constraints, text, least), "{text} >= {least}");
            assert!(!proved(&[], text, least), "{text} >= {least} without constraints");
            assert!(!proved(constraints, text, least + 1), "{text} >= {least} + 1");
        }
        assert!(!proved(&["T >= 4"], "4 - T", 0));
        assert!(!proved(&["T <= 8"], "T - 2", 0));
    }

    #[test]
    fn the_known_side_is_picked() {
        assert_eq!(max(&dim("b"), &dim("1")), dim("b"));
        assert_eq!(min(&dim("b"), &dim("b + 2")), dim("b"));
        assert_eq!(min(&dim("b"), &dim("3")).to_string(), "min(b, 3)");
        assert_eq!(non_negative(&dim("b - 1")), dim("b - 1"));
        assert_eq!(non_negative(&dim("b - 2")).to_string(), "max(b - 2, 0)");
    }
}
