//! What can be proved about symbolic sizes.
//!
//! In JAX a dimension variable is at least one. Everything here follows from that.

use crate::{Atom, Dim, DimOp, Type};

/// How many substitutions a proof may take. The cases of nested `max` and `min` multiply.
const BUDGET: u32 = 64;

/// A lower bound of `dim`, if one is found.
pub fn lower_bound(dim: &Dim) -> Option<i64> {
    lower(dim, &mut { BUDGET })
}

/// Whether `dim` is provably at least `least`.
pub fn at_least(dim: &Dim, least: i64) -> bool {
    lower_bound(dim).is_some_and(|bound| bound >= least)
}

/// Whether two sizes are provably equal, however they are written.
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

/// Whether two shapes are provably equal.
pub fn same_shape(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Whether two types are provably equal.
pub fn same_type(a: &Type, b: &Type) -> bool {
    a.dtype == b.dtype && same_shape(&a.shape, &b.shape)
}

/// The larger size, written as `max` only if it is not known which one it is.
pub fn max(a: &Dim, b: &Dim) -> Dim {
    pick(DimOp::Max, a, b)
}

/// The smaller size, written as `min` only if it is not known which one it is.
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

/// `size`, or zero if it is negative.
pub fn non_negative(size: &Dim) -> Dim {
    max(size, &Dim::Known(0))
}

/// `a` divided by the positive number `b`, rounded up.
pub fn ceil_div(a: Dim, b: i64) -> Dim {
    Dim::op(DimOp::FloorDiv, &(a + Dim::Known(b - 1)), &Dim::Known(b))
}

fn lower(dim: &Dim, budget: &mut u32) -> Option<i64> {
    if let Dim::Known(n) = dim {
        return Some(*n);
    }
    *budget = budget.checked_sub(1)?;
    let terms = dim.terms();
    // Cases that must all hold come first: later choices may differ between them.
    for cases_only in [true, false] {
        for (factor, atoms) in &terms {
            if let [(Atom::Op(op, a, b), 1)] = atoms.as_slice()
                && (!cases_only || is_case(*op, *factor))
            {
                let term = Dim::Known(*factor) * Dim::op(*op, a, b);
                return without_op((*factor, *op), a, b, &(dim.clone() - term), budget);
            }
        }
    }
    lower_polynomial(&terms, budget)
}

/// Whether a bound must hold with each side in place of the operation, rather than with one of
/// them.
fn is_case(op: DimOp, factor: i64) -> bool {
    matches!((op, factor > 0), (DimOp::Max, false) | (DimOp::Min, true))
}

/// The bound of `factor * op(a, b) + rest`, by replacing the operation with simpler expressions.
fn without_op(
    (factor, op): (i64, DimOp),
    a: &Dim,
    b: &Dim,
    rest: &Dim,
    budget: &mut u32,
) -> Option<i64> {
    let scale = |dim: Dim| Dim::Known(factor) * dim;
    let mut with = |dim: Dim| lower(&(rest.clone() + scale(dim)), budget);
    let grows = factor > 0;
    match op {
        DimOp::Max | DimOp::Min => {
            let (x, y) = (with(a.clone()), with(b.clone()));
            if is_case(op, factor) { Some(x?.min(y?)) } else { x.max(y) }
        }
        DimOp::Mod => {
            if lower(b, budget)? < 1 {
                return None;
            }
            let mut with = |dim: Dim| lower(&(rest.clone() + scale(dim)), budget);
            let by_range = with(if grows { Dim::Known(0) } else { b.clone() - Dim::Known(1) });
            let by_quotient = b.as_known().and_then(|_| {
                let quotient = Dim::op(DimOp::FloorDiv, a, b);
                with(a.clone() - b.clone() * quotient)
            });
            let natural = lower(a, budget).is_some_and(|least| least >= 0);
            let whole = rest.clone() + scale(a.clone());
            let by_whole = if natural && !grows { lower(&whole, budget) } else { None };
            by_range.max(by_quotient).max(by_whole)
        }
        DimOp::FloorDiv => match b {
            // k * (a // k) is between a - (k - 1) and a.
            Dim::Known(k) if *k > 0 => {
                let bound = if grows { a.clone() - Dim::Known(k - 1) } else { a.clone() };
                let scaled = lower(&(Dim::Known(*k) * rest.clone() + scale(bound)), budget)?;
                Some(scaled.saturating_neg().div_euclid(*k).saturating_neg())
            }
            _ => {
                let natural = lower(a, budget)? >= 0 && lower(b, budget)? >= 1;
                let bound = if grows { Dim::Known(0) } else { a.clone() };
                if natural { lower(&(rest.clone() + scale(bound)), budget) } else { None }
            }
        },
    }
}

/// The bound of a polynomial: its value where every atom is minimal, if it only grows from there.
fn lower_polynomial(terms: &[(i64, Vec<(Atom, u32)>)], budget: &mut u32) -> Option<i64> {
    let mut shifted = Dim::Known(0);
    for (factor, atoms) in terms {
        let mut product = Dim::Known(*factor);
        for (atom, power) in atoms {
            let above = match atom {
                Atom::Var(name) => Dim::var(name) + Dim::Known(1),
                Atom::Op(op, a, b) => {
                    let whole = Dim::op(*op, a, b);
                    Dim::var(&format!("#{whole}")) + Dim::Known(lower(&whole, budget)?)
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

#[cfg(test)]
mod tests {
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
        ] {
            assert_eq!(lower_bound(&dim(text)), expected, "{text}");
        }
    }

    /// A random expression of `b` and `t`.
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
        let mut found = 0;
        for _ in 0..2000 {
            let dim = random(&mut next, 3);
            let Some(bound) = lower_bound(&dim) else { continue };
            found += 1;
            for (b, t) in (1..9).flat_map(|b| (1..9).map(move |t| (b, t))) {
                let value = dim.eval(&|name| Some(if name == "b" { b } else { t }));
                assert!(value.is_none_or(|value| value >= bound), "{dim} >= {bound}: {b}, {t}");
            }
        }
        assert!(found > 500, "{found}");
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
    fn the_known_side_is_picked() {
        assert_eq!(max(&dim("b"), &dim("1")), dim("b"));
        assert_eq!(min(&dim("b"), &dim("b + 2")), dim("b"));
        assert_eq!(min(&dim("b"), &dim("3")).to_string(), "min(b, 3)");
        assert_eq!(non_negative(&dim("b - 1")), dim("b - 1"));
        assert_eq!(non_negative(&dim("b - 2")).to_string(), "max(b - 2, 0)");
    }
}
