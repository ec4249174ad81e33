//! `Transpose(f(x))` → `f(Transpose(x))`, if `x` leads to a product or data movement that can absorb
//! the transpose. `f` must be exact, and its other operands must only vary along axes that the
//! transpose preserves.

use onnx::operators::{Operator, Trait};
use onnx::{Node, ValueId, fold};

use crate::movement::{AxisMap, Change, Pushed, push};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("hoist_transposes", &["Transpose"], try_at);

/// The maximum number of operators between the transpose and the node that absorbs it.
const REACH: usize = 8;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let order = AxisMap::of(m.graph(), m.root()).ok_or("the order of axes is not known")?;
    let (node, pushed, x) =
        passed(m, m.operand(0)?, &order).ok_or("the operand is not moved element by element")?;
    let (node, mut from) = (node.clone(), x);
    let mut is_arithmetic = is_arithmetic(node.operator());
    for _ in 0..REACH {
        if let Some(movement) = m.producer_with(from, |op| op.is_movement() || op.name == "MatMul")
        {
            // The layout pass decides about products and activations.
            let is_absorbed = is_arithmetic || movement.is("Transpose");
            if !is_absorbed || movement.block() != m.root().block() || !m.is_used_once(from) {
                break;
            }
            let root = m.root().clone();
            let moved = |m: &mut Match<'_>, value| match value == x {
                true => m.like(&root, vec![Some(x)]),
                false => Ok(value),
            };
            return Ok(vec![pushed.emit(m, &node, moved)?]);
        }
        let Some((node, _, operand)) = passed(m, from, &order) else { break };
        is_arithmetic &= self::is_arithmetic(node.operator());
        from = operand;
    }
    Err("nothing can absorb the movement".into())
}

/// Returns the producer of `value`, the changes that let it work on operands transposed to `order`,
/// and the only operand that the transpose moves.
fn passed<'m>(
    m: &'m Match<'_>,
    value: ValueId,
    order: &AxisMap,
) -> Option<(&'m Node, Pushed, ValueId)> {
    let node = m.producer_with(value, |op| op.has(Trait::Exact) || op.name == "Softmax")?;
    if !m.is_used_once(value) || node.block() != m.root().block() {
        return None;
    }
    let mut pushed = push(m.graph(), node, order)?;
    // A softmax along the last axis computes all rows in the same way, regardless of their position.
    if let Change::Axis(axis) = pushed.change {
        let is_last = order.kept() > 0 && fold::axis(axis, order.rank()) == Ok(order.rank() - 1);
        pushed.change = is_last.then_some(Change::Nothing)?;
    }
    let is_moved = |input: &&ValueId| m.ty(**input).rank() > order.kept();
    let mut moved = node.inputs.iter().flatten().filter(is_moved);
    let (x, None) = (*moved.next()?, moved.next()) else { return None };
    (m.ty(x).shape == m.ty(value).shape).then_some((node, pushed, x))
}

/// Returns `true` if the operator is not an activation.
fn is_arithmetic(op: &Operator) -> bool {
    op.broadcasts() || matches!(op.name, "Abs" | "Cast" | "Neg" | "Softmax")
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

    #[test]
    fn transposes_meet_across_operators() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4] x) => (float[2,3,4] y) {
                a = Transpose <perm = [0, 2, 1]> (x)
                b = Relu (a)
                c = LeakyRelu <alpha = 0.5> (b)
                y = Transpose <perm = [0, 2, 1]> (c)
            }",
            "g (float[2,3,4] x) => (float[2,3,4] y) {
                a = Transpose <perm = [0, 2, 1]> (x)
                v0 = Transpose <perm = [0, 2, 1]> (a)
                v1 = Relu (v0)
                y = LeakyRelu <alpha = 0.5> (v1)
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

    #[test]
    fn products_keep_their_activations() {
        let text = |op: &str| {
            format!(
                "g (float[2,3] a, float[3,4] b) => (float[4,2] y) {{
                    p = MatMul (a, b) s = {op} (p) y = Transpose <perm = [1, 0]> (s) }}"
            )
        };
        assert!(crate::testing::rewritten(&REWRITE, &text("Neg")).contains("Neg (v"));
        stays(&REWRITE, &text("Relu"));
        stays(&REWRITE, &text("Neg").replace("=> (", "=> (float[2,4] p, "));
    }

    #[test]
    fn a_softmax_along_an_axis_that_moves_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[2,3,4] a) => (float[2,3,4] y) {
                t = Transpose <perm = [1, 0, 2]> (a)
                w = Softmax <axis = 0> (t)
                y = Transpose <perm = [1, 0, 2]> (w)
            }",
        );
    }

    /// The axis would be the last one behind the transpose.
    #[test]
    fn a_softmax_along_an_axis_that_becomes_the_last_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[2,3,4] a) => (float[2,4,3] y) {
                t = Transpose <perm = [1, 0, 2]> (a)
                w = Softmax <axis = 0> (t)
                y = Transpose <perm = [1, 2, 0]> (w)
            }",
        );
    }

    #[test]
    fn a_product_of_another_block_does_not_absorb_a_transpose() {
        stays(
            &REWRITE,
            "g (bool k, float[2,3] a, float[3,4] b, float c) => (float[4,2] y) {
                p = MatMul (a, b)
                y = If (k) <
                    then_branch = t () => (float[4,2] u) {
                        s = Mul (p, c) u = Transpose <perm = [1, 0]> (s)
                    },
                    else_branch = f () => (float[4,2] v) {
                        d = MatMul (a, b) v = Transpose <perm = [1, 0]> (d)
                    }
                >
            }",
        );
    }
}
