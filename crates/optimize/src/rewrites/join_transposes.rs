//! `Transpose(Relu(Transpose(x)))` → `Relu(Transpose(x))`: merges or cancels two transposes that
//! are separated only by elementwise operators.

use onnx::operators::{Operator, Trait};
use onnx::{NodeId, ValueId, attrs};

use super::compose_transposes::{composed, is_in_order, permutation};
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "join_transposes", roots: Roots::Named(&["Transpose"]), try_at };

/// Returns `true` if the operator is unary, elementwise and exact.
fn is_exact_unary(op: &Operator) -> bool {
    op.is_elementwise() && op.has(Trait::Exact) && op.operands() == (1..=1)
}

/// The maximum number of operators between the transposes.
const REACH: usize = 8;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (mut value, mut between) = (m.operand(0)?, Vec::<NodeId>::new());
    let first = loop {
        if let Some(node) = m.producer(value, &["Transpose"]) {
            break node;
        }
        let node = m.producer_with(value, is_exact_unary).ok_or("no Transpose comes before")?;
        if between.len() == REACH {
            return Err("the other Transpose is too far away".into());
        }
        if !m.is_used_once(value) {
            return Err("a value in between has other readers".into());
        }
        between.extend(m.graph().producer(value));
        value = node.input(0).ok_or("an operand is missing")?;
    };
    if !m.is_used_once(value) || between.is_empty() {
        return Err("the first Transpose has other readers".into());
    }
    let x = first.input(0).ok_or("an operand is missing")?;
    let rank = m.ty(x).rank();
    let perm = composed(&permutation(first, rank)?, &permutation(m.root(), rank)?)?;
    let mut value = x;
    if !is_in_order(&perm) {
        value = m.op("Transpose", &[x], attrs! { perm: perm })?;
    }
    for id in between.into_iter().rev() {
        let node = m.graph().node(id).clone();
        value = m.like(&node, vec![Some(value)])?;
    }
    Ok(vec![value])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn opposites_cancel_across_operators() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4] x) => (float[2,3,4] y) {
                a = Transpose <perm = [0, 2, 1]> (x)
                b = Relu (a)
                c = LeakyRelu <alpha = 0.5> (b)
                y = Transpose <perm = [0, 2, 1]> (c)
            }",
            "g (float[2,3,4] x) => (float[2,3,4] y) {
                v0 = Relu (x)
                y = LeakyRelu <alpha = 0.5> (v0)
            }",
        );
    }

    #[test]
    fn transposes_with_other_consumers_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[2,3] x) => (float[2,3] y, float[3,2] z) {
                a = Transpose (x)
                b = Relu (a)
                y = Transpose (b)
                z = Exp (b)
            }",
        );
    }
}
