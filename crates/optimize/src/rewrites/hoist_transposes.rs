//! `Transpose(f(x))` → `f(Transpose(x))`, if `x` is a product or data movement that can absorb the
//! transpose. `f` must be exact, and its other operands must only vary along axes that the
//! transpose preserves.

use onnx::operators::{Operator, Trait};
use onnx::{Node, ValueId};

use super::compose_transposes::permutation;
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "hoist_transposes", roots: Roots::Named(&["Transpose"]), try_at };

/// The maximum number of operators between the transpose and the node that absorbs it.
const REACH: usize = 6;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let value = m.operand(0)?;
    let perm = permutation(m.root(), m.ty(value).rank())?;
    let kept = perm.iter().rev().zip((0..perm.len()).rev()).take_while(|(p, i)| **p == *i as i64);
    let kept = kept.count();
    let (node, x) = passed(m, value, kept).ok_or("the operand is not moved element by element")?;
    let node = node.clone();
    let mut from = x;
    for _ in 0..REACH {
        if let Some(movement) = m.producer_with(from, |op| op.is_movement() || op.name == "MatMul")
        {
            if movement.block() != m.root().block() || !m.is_used_once(from) {
                break;
            }
            let root = m.root().clone();
            let first = m.like(&root, vec![Some(x)])?;
            let replaced =
                |input: &Option<ValueId>| if *input == Some(x) { Some(first) } else { *input };
            let inputs = node.inputs.iter().map(replaced).collect();
            return Ok(vec![m.like(&node, inputs)?]);
        }
        match passed(m, from, kept) {
            Some((_, operand)) => from = operand,
            None => break,
        }
    }
    Err("nothing can absorb the movement".into())
}

/// Returns the producer of `value`, and the only operand that a transpose would move on to, if the
/// transpose preserves the last `kept` axes.
fn passed<'m>(m: &'m Match<'_>, value: ValueId, kept: usize) -> Option<(&'m Node, ValueId)> {
    let node = m.producer_with(value, |op| is_passed(op) || op.name == "Softmax")?;
    if !m.is_used_once(value) || node.block() != m.root().block() {
        return None;
    }
    let rank = m.ty(value).rank() as i64;
    // A softmax computes all rows in the same way, regardless of their position.
    let is_last = matches!(node.int("axis", -1), axis if axis == -1 || axis == rank - 1);
    if node.is("Softmax") && (!is_last || kept == 0) {
        return None;
    }
    let mut moved = node.inputs.iter().flatten().filter(|input| m.ty(**input).rank() > kept);
    let (x, None) = (*moved.next()?, moved.next()) else { return None };
    let same = m.ty(x).shape == m.ty(value).shape;
    same.then_some((node, x))
}

/// Returns `true` if the operator is exact arithmetic. Activations stay: the layout pass decides about products
/// between them.
fn is_passed(op: &Operator) -> bool {
    op.has(Trait::Exact) && (op.broadcasts() || matches!(op.name, "Abs" | "Cast" | "Neg"))
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn scores_move_before_they_are_scaled() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3] a, float[3,4] b, float c) => (float[4,2] y) {
                p = MatMul (a, b)
                s = Mul (p, c)
                y = Transpose <perm = [1, 0]> (s)
            }",
            "g (float[2,3] a, float[3,4] b, float c) => (float[4,2] y) {
                p = MatMul (a, b)
                v0 = Transpose <perm = [1, 0]> (p)
                y = Mul (v0, c)
            }",
        );
    }

    #[test]
    fn transposes_that_nothing_absorbs_are_unchanged() {
        for text in [
            "g (float[2,3] a, float c) => (float[3,2] y) {
                s = Mul (a, c)
                y = Transpose <perm = [1, 0]> (s)
            }",
            "g (float[2,3] a, float[3,4] b, float[4] c) => (float[4,2] y) {
                p = MatMul (a, b)
                s = Mul (p, c)
                y = Transpose <perm = [1, 0]> (s)
            }",
            "g (float[2,3] a, float[3,4] b) => (float[4,2] y) {
                p = MatMul (a, b)
                s = Exp (p)
                y = Transpose <perm = [1, 0]> (s)
            }",
        ] {
            stays(&REWRITE, text);
        }
    }

    #[test]
    fn weights_move_before_they_are_masked() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4] a, bool[4] m, float c) => (float[2,3,4] y) {
                t = Transpose <perm = [1, 0, 2]> (a)
                s = Where (m, t, c)
                w = Softmax <axis = -1> (s)
                y = Transpose <perm = [1, 0, 2]> (w)
            }",
            "g (float[2,3,4] a, bool[4] m, float c) => (float[2,3,4] y) {
                t = Transpose <perm = [1, 0, 2]> (a)
                v0 = Transpose <perm = [1, 0, 2]> (t)
                v1 = Where (m, v0, c)
                y = Softmax <axis = -1> (v1)
            }",
        );
        stays(
            &REWRITE,
            "g (float[2,3,4] a) => (float[4,3,2] y) {
                t = Transpose <perm = [1, 0, 2]> (a)
                w = Softmax <axis = -1> (t)
                y = Transpose <perm = [2, 0, 1]> (w)
            }",
        );
    }
}
