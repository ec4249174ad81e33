//! A chain of `Reshape`, `Flatten`, `Squeeze` and `Unsqueeze` → one `Reshape`, if its target shape
//! can be expressed with known sizes, axes copied from the operand, and at most one inferred axis.

use onnx::operators::Operator;
use onnx::{Attrs, ValueId, attrs};
use tensor::Dim;
use tensor::bounds::at_least;

use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "compose_reshapes", roots: Roots::With(Operator::is_reshape), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let inner = m.operand(0)?;
    let node = m.producer_with(inner, Operator::is_reshape).ok_or("the operand is not reshaped")?;
    let x = node.input(0).ok_or("an operand is missing")?;
    let y = m.result()?;
    if m.ty(x) == m.ty(y) {
        return Ok(vec![x]);
    }
    let (shape, attrs) = target(&m.ty(x).shape, &m.ty(y).shape)?;
    let shape = m.i64s(&shape);
    Ok(vec![m.op("Reshape", &[x, shape], attrs)?])
}

/// Returns the operand and attributes of a `Reshape` from one shape to the other.
pub(crate) fn target(from: &[Dim], to: &[Dim]) -> Result<(Vec<i64>, Attrs), Skip> {
    let count = |dims: &[Dim]| dims.iter().fold(Dim::Known(1), |n, dim| n * dim.clone());
    if count(from) != count(to) {
        return Err("the number of elements is not known to be the same".into());
    }
    let known: Option<Vec<i64>> = to.iter().map(Dim::as_known).collect();
    if let Some(shape) = known {
        let attrs = if shape.contains(&0) {
            attrs! { allowzero: 1 }
        } else {
            attrs! {}
        };
        return Ok((shape, attrs));
    }
    if to.contains(&Dim::Known(0)) {
        return Err("one axis is empty and another is symbolic".into());
    }
    let mut computed = 0;
    let shape = to.iter().enumerate().map(|(i, dim)| match dim.as_known() {
        Some(n) => n,
        // A zero copies the operand's size of the same axis.
        None if from.get(i) == Some(dim) => 0,
        None => {
            computed += 1;
            -1
        }
    });
    let shape: Vec<i64> = shape.collect();
    if computed > 1 {
        return Err("several axes are symbolic".into());
    }
    let mut others = to.iter().zip(&shape).filter(|(_, size)| **size != -1);
    if computed == 1 && !others.all(|(dim, _)| at_least(dim, 1)) {
        return Err("nothing can be computed from an axis that may be empty".into());
    }
    Ok((shape, attrs! {}))
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn chains_become_one_reshape() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3,4] x) => (float[1,4,6] y) {
                a = Constant <value_ints = [6, 4]> ()
                s = Reshape (x, a)
                b = Constant <value_ints = [4, 6]> ()
                t = Reshape (s, b)
                c = Constant <value_ints = [0]> ()
                y = Unsqueeze (t, c)
            }",
            "g (float[2,3,4] x) => (float[1,4,6] y) {
                c = Constant <value_ints = [1, 4, 6]> ()
                y = Reshape (x, c)
            }",
        );
    }

    #[test]
    fn reshapes_that_cancel_are_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x) => (float[B,T,6] y) {
                a = Constant <value_ints = [0, 0, 2, 3]> ()
                s = Reshape (x, a)
                b = Constant <value_ints = [0, 0, 6]> ()
                t = Reshape (s, b)
                y = Exp (t)
            }",
            "g (float[B,T,6] x) => (float[B,T,6] y) {
                y = Exp (x)
            }",
        );
    }

    #[test]
    fn one_axis_may_be_inferred() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x) => (float[B,\"2*T\",3] y) {
                a = Constant <value_ints = [0, 0, 2, 3]> ()
                s = Reshape (x, a)
                b = Constant <value_ints = [0, -1, 3]> ()
                y = Reshape (s, b)
            }",
            "g (float[B,T,6] x) => (float[B,\"2*T\",3] y) {
                c = Constant <value_ints = [0, -1, 3]> ()
                y = Reshape (x, c)
            }",
        );
    }

    #[test]
    fn no_axis_is_inferred_if_another_may_be_empty() {
        stays(
            &REWRITE,
            "g (float[\"B - 1\",T,6] x) => (float[\"B - 1\",\"2*T\",3] y) {
                a = Constant <value_ints = [0, 0, 2, 3]> ()
                s = Reshape (x, a)
                b = Constant <value_ints = [0, -1, 3]> ()
                y = Reshape (s, b)
            }",
        );
    }

    #[test]
    fn two_symbolic_axes_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[1,B,T,6] x) => (float[B,T,2,3] y) {
                a = Constant <value_ints = [0]> ()
                s = Squeeze (x, a)
                b = Constant <value_ints = [0, 0, 2, 3]> ()
                y = Reshape (s, b)
            }",
        );
    }

    #[test]
    fn an_empty_axis_is_a_number() {
        rewrites_to(
            &REWRITE,
            "g (float[0,3] x) => (float[1,3,0] y) {
                a = Constant <value_ints = [3, 0]> ()
                s = Reshape <allowzero = 1> (x, a)
                b = Constant <value_ints = [0]> ()
                y = Unsqueeze (s, b)
            }",
            "g (float[0,3] x) => (float[1,3,0] y) {
                c = Constant <value_ints = [1, 3, 0]> ()
                y = Reshape <allowzero = 1> (x, c)
            }",
        );
    }
}
