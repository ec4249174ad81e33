//! Drops explicit broadcasts that an elementwise operator performs itself: an `Expand` of an
//! operand, or a `Reshape` or `Unsqueeze` that only prepends unit axes.
//!
//! Keeps `x * x` on one operand. `Pow` is excluded because runtimes treat a scalar exponent
//! specially. `Max` and `Min` of floats are excluded because their choice between two zeros may
//! depend on the layout.

use onnx::ValueId;
use tensor::Dim;

use super::expand_after_movement::has_leading_units;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::with(
    "drop_operand_broadcast",
    |op| op.broadcasts() && !matches!(op.name, "PRelu" | "Pow"),
    try_at,
);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    let is_choice = matches!(m.root().op.name, "Max" | "Min");
    Skip::when(is_choice && m.ty(y).dtype.is_float(), "the sign of zero may change")?;
    let sources = |v: &Option<ValueId>| v.is_some_and(|v| source(m, v).is_some());
    Skip::when(!m.root().inputs.iter().any(sources), "no operand is broadcast before")?;
    let mut inputs = m.root().inputs.clone();
    // Expanded operands come first, because dropping a reshape does not reduce the size of a value.
    let is_reshaped =
        |value: &Option<ValueId>| !value.is_some_and(|v| m.producer(v, &["Expand"]).is_some());
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    order.sort_by_key(|i| is_reshaped(&inputs[*i]));
    // Keeps `x * x` on one operand.
    let repeated = |i: usize| {
        let mut others = inputs.iter().enumerate().filter(|(j, _)| *j != i);
        is_reshaped(&inputs[i]) && others.any(|(_, other)| *other == inputs[i])
    };
    order.retain(|i| !repeated(*i));
    for i in order {
        let Some(source) = inputs[i].and_then(|v| source(m, v)) else { continue };
        let kept = inputs[i].replace(source);
        if !gives(m, &inputs, &m.ty(y).shape) {
            inputs[i] = kept;
        }
    }
    Skip::when(inputs == m.root().inputs, "the broadcast decides the shape")?;
    Ok(vec![m.like(&m.root().clone(), inputs)?])
}

/// Returns the value that `value` broadcasts.
fn source(m: &Match<'_>, value: ValueId) -> Option<ValueId> {
    let node = m.producer(value, &["Expand", "Reshape", "Unsqueeze"])?;
    let source = node.input(0)?;
    let fits = node.is("Expand") || has_leading_units(&m.ty(source).shape, &m.ty(value).shape);
    fits.then_some(source)
}

/// Returns `true` if the operands broadcast to `shape`.
pub(super) fn gives(m: &Match<'_>, inputs: &[Option<ValueId>], shape: &[Dim]) -> bool {
    let shapes = || inputs.iter().flatten().map(|v| m.ty(*v).shape.as_slice());
    shapes().all(|s| s.len() <= shape.len())
        && shape.iter().rev().enumerate().all(|(i, dim)| {
            let mut dims = shapes().filter_map(|s| s.iter().rev().nth(i));
            let one = Dim::Known(1);
            let fits = dims.clone().all(|d| *d == one || d == dim);
            fits && dims.any(|d| d == dim)
        })
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn operators_broadcast_by_themselves() {
        rewrites_to(
            &REWRITE,
            "g (float[B,3] x, float[3] b, float c) => (float[B,3] y) {
                s = Constant <value_ints = [1, 3]> ()
                r = Reshape (b, s)
                d = Shape (x)
                e = Expand (r, d)
                t = Add (x, e)
                zero = Constant <value_ints = [0]> ()
                u = Unsqueeze (c, zero)
                y = Mul (u, t)
            }",
            "g (float[B,3] x, float[3] b, float c) => (float[B,3] y) {
                t = Add (x, b)
                y = Mul (c, t)
            }",
        );
    }

    #[test]
    fn an_expand_that_determines_the_shape_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[1,3] x, float[3] b) => (float[4,3] y) {
                s = Constant <value_ints = [4, 3]> ()
                e = Expand (x, s)
                y = Add (e, b)
            }",
        );
    }

    #[test]
    fn one_of_two_expands_remains() {
        rewrites_to(
            &REWRITE,
            "g (float[3] a, float[3] b) => (float[4,3] y) {
                s = Constant <value_ints = [4, 3]> ()
                d = Expand (a, s)
                e = Expand (b, s)
                y = Add (d, e)
            }",
            "g (float[3] a, float[3] b) => (float[4,3] y) {
                s = Constant <value_ints = [4, 3]> ()
                e = Expand (b, s)
                y = Add (a, e)
            }",
        );
    }

    #[test]
    fn a_choice_between_zeros_is_unchanged() {
        let text = |ty: &str, operand: &str| {
            format!(
                "g ({ty}[4,3] x, {ty} b) => ({ty}[4,3] y) {{
                    s = Constant <value_ints = [4, 3]> ()
                    e = Expand (b, s)
                    y = Max (x, {operand})
                }}"
            )
        };
        stays(&REWRITE, &text("float", "e"));
        rewrites_to(
            &REWRITE,
            &text("int32", "e"),
            &text("int32", "b").replace("e = Expand (b, s)", ""),
        );
    }

    #[test]
    fn a_trailing_unit_axis_is_unchanged() {
        stays(
            &REWRITE,
            "g (float[4,3] x, float[4] b) => (float[4,3] y) {
                s = Constant <value_ints = [4, 1]> ()
                r = Reshape (b, s)
                y = Add (x, r)
            }",
        );
    }
}
