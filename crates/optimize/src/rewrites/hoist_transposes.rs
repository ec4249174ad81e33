//! `Transpose(f(x))` → `f(Transpose(x))`, where `x` is a product or moved itself and takes the
//! movement in, and `f` is exact and has scalars beside `x`.

use onnx::ValueId;

use crate::movement::MOVEMENTS;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "hoist_transposes", roots: &["Transpose"], try_at };

/// Operators that treat every element alike, and exactly. What is approximated is not here: a
/// runtime may round the last elements of a row differently from the others.
const EXACT: &[&str] = &["Abs", "Add", "Cast", "Div", "Mul", "Neg", "Sub", "Where"];

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let value = m.operand(0)?;
    let node = m.producer(value, EXACT).ok_or("the operand is not moved element by element")?;
    let node = node.clone();
    if !m.is_used_once(value) || node.block() != m.root().block() {
        return Err("the value has other readers".into());
    }
    let mut moved = node.inputs.iter().flatten().filter(|input| m.ty(**input).rank() > 0);
    let (Some(x), None) = (moved.next().copied(), moved.next()) else {
        return Err("another operand would have to move as well".into());
    };
    let from = m.producer(x, &[MOVEMENTS, &["MatMul"]].concat()).map(onnx::Node::block);
    if from != Some(node.block()) || !m.is_used_once(x) {
        return Err("nothing can absorb the movement".into());
    }
    if m.ty(x).shape != m.ty(value).shape {
        return Err("the operand is broadcast".into());
    }
    let root = m.root().clone();
    let first = m.like(&root, vec![Some(x)])?;
    let replaced = |input: &Option<ValueId>| if *input == Some(x) { Some(first) } else { *input };
    let inputs = node.inputs.iter().map(replaced).collect();
    Ok(vec![m.like(&node, inputs)?])
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
    fn what_nobody_takes_in_stays() {
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
}
