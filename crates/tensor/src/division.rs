//! Exact division of sizes.

use std::cmp::Ordering;

use crate::{Atom, Dim, DimOp};

use crate::bounds::same;

/// A factor and the atoms it multiplies, sorted, with their powers.
type Term = (i64, Vec<(Atom, u32)>);

/// Returns the product of all sizes of a shape.
pub fn product(shape: &[Dim]) -> Dim {
    shape.iter().cloned().fold(Dim::Known(1), |product, dim| product * dim)
}

/// Returns `a / b`, if `b` divides `a` for every value of the variables.
pub fn exact_div(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => {
            (a.checked_rem(*b)? == 0).then(|| Dim::Known(a.wrapping_div(*b)))
        }
        _ if a == b => Some(Dim::Known(1)),
        _ => divide(a, b).or_else(|| divide_whole(a, b)),
    }
}

/// Returns the quotient as a `floordiv`, if the constraints imply that the remainder is zero.
fn divide_whole(a: &Dim, b: &Dim) -> Option<Dim> {
    a.constraints().or_else(|| b.constraints())?;
    let quotient = Dim::op(DimOp::FloorDiv, a, b);
    same(&(b.clone() * quotient.clone()), a).then_some(quotient)
}

/// Returns the quotient of the products of two shapes, if it is exact.
pub fn exact_div_products(a: &[Dim], b: &[Dim]) -> Option<Dim> {
    let mut above = a.to_vec();
    let mut below = Dim::Known(1);
    for dim in b {
        // Sizes on both sides cancel even if the quotient is not a polynomial.
        match above.iter().position(|other| same(other, dim)) {
            Some(at) if *dim != Dim::Known(0) => drop(above.swap_remove(at)),
            _ => below = below * dim.clone(),
        }
    }
    exact_div(&product(&above), &below)
}

/// Divides polynomials by long division. The leading term of the divisor must divide that of the
/// remainder at every step.
fn divide(a: &Dim, b: &Dim) -> Option<Dim> {
    let divisor = leading(b)?;
    let mut rest = a.clone();
    let mut quotient = Dim::Known(0);
    while let Some(term) = leading(&rest) {
        let step = divide_term(&term, &divisor)?;
        rest = rest - step.clone() * b.clone();
        quotient = quotient + step;
    }
    Some(quotient)
}

/// Returns the largest term in lexicographic order, which multiplication preserves, or `None` for
/// zero.
fn leading(dim: &Dim) -> Option<Term> {
    let terms = dim.terms().into_iter().filter(|(factor, _)| *factor != 0);
    terms.max_by(|(_, a), (_, b)| compare(a, b))
}

fn compare(a: &[(Atom, u32)], b: &[(Atom, u32)]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        // The side with the smaller atom has a higher power of it than the other side.
        let order = y.0.cmp(&x.0).then(x.1.cmp(&y.1));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn divide_term((factor, atoms): &Term, (by, below): &Term) -> Option<Dim> {
    if factor.checked_rem(*by)? != 0 {
        return None;
    }
    let power_of = |atom: &Atom, atoms: &[(Atom, u32)]| {
        atoms.iter().find(|(other, _)| other == atom).map_or(0, |(_, power)| *power)
    };
    if below.iter().any(|(atom, power)| power_of(atom, atoms) < *power) {
        return None;
    }
    let mut quotient = Dim::Known(factor.wrapping_div(*by));
    for (atom, power) in atoms {
        let base = Dim::atom(atom.clone());
        for _ in power_of(atom, below)..*power {
            quotient = quotient * base.clone();
        }
    }
    Some(quotient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_quotients_are_found() {
        for (a, b, expected) in [
            ("12", "4", Some("3")),
            ("12", "5", None),
            ("12", "0", None),
            ("6*b + 4", "2", Some("3*b + 2")),
            ("6*b + 3", "2", None),
            ("b*t", "b", Some("t")),
            ("b^2 - 1", "b + 1", Some("b - 1")),
            ("b^2*t + b*t^2", "b + t", Some("b*t")),
            ("b", "t", None),
            ("b", "2*b", None),
            ("2*floordiv(b, 2)*t", "floordiv(b, 2)", Some("2*t")),
            ("0", "b", Some("0")),
            ("b", "1", Some("b")),
            ("b", "-1", Some("-b")),
        ] {
            let dim = |text| Dim::parse(text).unwrap();
            assert_eq!(exact_div(&dim(a), &dim(b)), expected.map(dim), "{a} / {b}");
        }
    }

    #[test]
    fn products_cancel() {
        let dim = |text| Dim::parse(text).unwrap();
        let (a, b) = ([dim("b + 1"), dim("4"), dim("t")], [dim("2"), dim("b + 1")]);
        assert_eq!(exact_div_products(&a, &b), Some(dim("2*t")));
        // Zeros do not cancel.
        assert_eq!(exact_div_products(&[dim("3"), dim("0")], &[dim("0")]), None);
        assert_eq!(exact_div_products(&[dim("0")], &[dim("0")]), None);
    }

    #[test]
    fn equal_sizes_cancel_if_their_expressions_differ() {
        let dim = |text| Dim::parse(text).unwrap();
        let shape = [dim("max(b, 1)"), dim("t")];
        assert_eq!(exact_div_products(&shape, &[dim("b")]), Some(dim("t")));
    }

    #[test]
    fn constraints_make_quotients_exact() {
        let mut constraints = crate::Constraints::default();
        constraints.add("T == 2*floordiv(T, 2)").unwrap();
        let constraints = std::sync::Arc::new(constraints);
        let size = Dim::parse_with("T", Some(&constraints)).unwrap();
        let half = exact_div(&size, &Dim::Known(2));
        assert_eq!(half, Some(Dim::op(DimOp::FloorDiv, &size, &Dim::Known(2))));
        assert_eq!(exact_div(&size, &Dim::Known(3)), None);
    }

    #[test]
    fn the_leading_terms_are_divided_first() {
        let dim = |text| Dim::parse(text).unwrap();
        for (a, b) in [
            ("a + b", "a - b"),
            ("a*c + b", "a + c"),
            ("a^2 + b*c", "b + c"),
            ("b^3 + a", "a + b^2"),
        ] {
            let (a, b) = (dim(a), dim(b));
            assert_eq!(exact_div(&(a.clone() * b.clone()), &b), Some(a));
        }
    }
}
