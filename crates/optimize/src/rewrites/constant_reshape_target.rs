//! `Reshape(x, computed shape)` → `Reshape(x, constant)`, if the shape can be expressed with copied
//! axes, known sizes and one inferred axis. The computation of the shape is then often unused.

use onnx::ValueId;

use super::compose_reshapes::target;
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "constant_reshape_target", roots: Roots::Named(&["Reshape"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (x, shape) = (m.operand(0)?, m.operand(1)?);
    // Includes parameters, because a parameter may be the only constant with its value.
    if m.graph().tensor(shape).is_some() {
        return Err("the shape is already constant".into());
    }
    let (shape, attrs) = target(&m.ty(x).shape, &m.ty(m.result()?).shape)?;
    let shape = m.i64s(&shape);
    Ok(vec![m.op("Reshape", &[x, shape], attrs)?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn unchanged_axes_are_copied() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x) => (float[B,T,2,3] y) {
                b = Shape <start = 0, end = 2> (x)
                a = Constant <value_ints = [2, 3]> ()
                s = Concat <axis = 0> (b, a)
                y = Reshape <allowzero = 1> (x, s)
            }",
            "g (float[B,T,6] x) => (float[B,T,2,3] y) {
                c = Constant <value_ints = [0, 0, 2, 3]> ()
                y = Reshape (x, c)
            }",
        );
    }

    #[test]
    fn one_axis_is_inferred_by_the_runtime() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,6] x) => (float[\"B*T\",6] y) {
                b = Shape <start = 0, end = 1> (x)
                t = Shape <start = 1, end = 2> (x)
                n = Mul (b, t)
                a = Constant <value_ints = [6]> ()
                s = Concat <axis = 0> (n, a)
                y = Reshape <allowzero = 1> (x, s)
            }",
            "g (float[B,T,6] x) => (float[\"B*T\",6] y) {
                c = Constant <value_ints = [-1, 6]> ()
                y = Reshape (x, c)
            }",
        );
    }

    #[test]
    fn parameters_are_constant() {
        stays(
            &REWRITE,
            "g (float[1] x) => (float y) <int64[0] w = {}> {
                y = Reshape (x, w)
            }",
        );
    }

    #[test]
    fn two_symbolic_axes_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[B,T,6] x) => (float[T,B,6] y) {
                b = Shape <start = 0, end = 1> (x)
                t = Shape <start = 1, end = 2> (x)
                a = Constant <value_ints = [6]> ()
                s = Concat <axis = 0> (t, b, a)
                y = Reshape <allowzero = 1> (x, s)
            }",
        );
    }
}
