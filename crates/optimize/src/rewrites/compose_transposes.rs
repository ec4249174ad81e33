//! `Transpose(Transpose(x))` → one `Transpose`, or `x` itself.

use onnx::{Node, ValueId, attrs};

use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "compose_transposes", roots: Roots::Named(&["Transpose"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let inner = m.operand(0)?;
    let node = m.producer(inner, &["Transpose"]).ok_or("the operand is not a Transpose")?;
    let x = node.input(0).ok_or("an operand is missing")?;
    let rank = m.ty(x).rank();
    let perm = composed(&permutation(node, rank)?, &permutation(m.root(), rank)?)?;
    if is_in_order(&perm) {
        return Ok(vec![x]);
    }
    Ok(vec![m.op("Transpose", &[x], attrs! { perm: perm })?])
}

/// Returns the source axis of each axis of a `Transpose` result.
pub(crate) fn permutation(node: &Node, rank: usize) -> Result<Vec<i64>, Skip> {
    let perm = match node.ints("perm") {
        Some(perm) => perm.to_vec(),
        None => (0..rank).rev().map(|i| i as i64).collect(),
    };
    if perm.len() == rank { Ok(perm) } else { Err("the permutation has a different rank".into()) }
}

/// Composes two permutations: `first`, then `second`.
pub(super) fn composed(first: &[i64], second: &[i64]) -> Result<Vec<i64>, Skip> {
    let from = |axis: &i64| usize::try_from(*axis).ok().and_then(|i| first.get(i)).copied();
    second.iter().map(from).collect::<Option<_>>().ok_or(Skip::Because("an axis is out of range"))
}

pub(super) fn is_in_order(perm: &[i64]) -> bool {
    (0..).zip(perm).all(|(i, p)| i == *p)
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::rewrites_to;

    #[test]
    fn permutations_compose() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,B] x) => (float[3,B,2] y) {
                t = Transpose <perm = [2, 0, 1]> (x)
                y = Transpose <perm = [2, 0, 1]> (t)
            }",
            "g (float[2,3,B] x) => (float[3,B,2] y) {
                y = Transpose <perm = [1, 2, 0]> (x)
            }",
        );
    }

    #[test]
    fn opposites_cancel() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3] x) => (float[2,3] y) {
                t = Transpose (x)
                u = Transpose <perm = [1, 0]> (t)
                y = Exp (u)
            }",
            "g (float[2,3] x) => (float[2,3] y) {
                y = Exp (x)
            }",
        );
    }

    #[test]
    fn an_inner_transpose_with_other_consumers_remains() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3] x) => (float[2,3] y, float[3,2] z) {
                z = Transpose (x)
                y = Transpose (z)
            }",
            "g (float[2,3] x) => (float[2,3] y, float[3,2] z) {
                z = Transpose (x)
                y = Identity (x)
            }",
        );
    }
}
