//! `x + 0` → `x`, `x * 1` → `x`, `max(x, -∞)` → `x` and similar identities.
//!
//! The neutral operand may be expanded. `x` takes over the `Expand` if that determines the shape.
//! For floats, the sign of zero must be preserved: `x + 0.0` turns `-0.0` into `0.0`, if that can
//! occur, whereas `x + -0.0` and `x - 0.0` do not.

use onnx::operators::{Operator, Trait};
use onnx::{ValueId, attrs};
use tensor::Tensor;

use super::expand_after_movement::{repeats, with_unit_axes};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::with("drop_neutral_operand", |op| op.neutral().is_some(), try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (y, node) = (m.result()?, m.root());
    let [Some(a), Some(b)] = *node.inputs.as_slice() else {
        return Err("it does not have two operands".into());
    };
    let op = node.operator();
    let shape = &m.ty(y).shape;
    // A computed operand is neutral if it is always zero. The cheap test comes first because this
    // is rare and the analysis is slow.
    let is_sum = matches!(op.name, "Add" | "Sub");
    let is_zero = |v, from, other| {
        is_sum
            && is_multiple_of_zero(m, from)
            && m.facts().float_interval(v, shape).is(0.0)
            && (op.name == "Sub" || !m.facts().float_interval(other, shape).has_negative_zero)
    };
    let is_neutral = |v, other| {
        let from = spread_from(m, v);
        m.constant(from).is_some_and(|t| is_neutral(op, t)) || is_zero(v, from, other)
    };
    let (x, neutral) = if is_neutral(b, a) {
        (a, b)
    } else if op.has(Trait::Commutative) && is_neutral(a, b) {
        (b, a)
    } else {
        return Err("neither operand is neutral".into());
    };
    if let Some(same) = with_unit_axes(m, x, y)? {
        return Ok(vec![same]);
    }
    let expand = m.producer(neutral, &["Expand"]).and_then(|node| node.input(1));
    let shape = match (expand, repeats(&m.ty(x).shape, &m.ty(y).shape)) {
        (_, Some(shape)) => m.i64s(&shape),
        (Some(shape), None) if m.ty(neutral) == m.ty(y) => shape,
        _ => return Err("the neutral operand broadcasts the other one".into()),
    };
    Ok(vec![m.op("Expand", &[x, shape], attrs! {})?])
}

/// Returns the value whose elements `value` repeats.
fn spread_from(m: &Match<'_>, mut value: ValueId) -> ValueId {
    while let Some(node) = m.producer(value, &["Expand", "Reshape", "Unsqueeze"])
        && let Some(from) = node.input(0)
    {
        value = from;
    }
    value
}

fn is_neutral(op: &Operator, tensor: &Tensor) -> bool {
    let (Some(value), Some(neutral)) = (tensor.splat(), op.neutral()) else {
        return false;
    };
    // The two zeros differ only for floats.
    value == neutral && (!tensor.dtype().is_float() || value.to_bits() == neutral.to_bits())
}

/// Returns `true` if `value` is a constant zero or a product with one. The product is zero if the
/// other factor is finite.
fn is_multiple_of_zero(m: &Match<'_>, value: ValueId) -> bool {
    let is_zero = |v: &ValueId| m.number(*v) == Some(0.0);
    let product = m.producer(value, &["Mul"]);
    is_zero(&value) || product.is_some_and(|node| node.inputs.iter().flatten().any(is_zero))
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn neutral_operands_are_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[2] x, int64[2] n, bool[2] p) => (float[2] y, int64[2] m, bool[2] q) {
                one = Constant <value_float: float = 1> ()
                minus = Constant <value_float: float = -0.0> ()
                least = Constant <value_float: float = -inf> ()
                zero = Constant <value_int = 0> ()
                yes = Constant <value = bool {1}> ()
                a = Mul (x, one)
                b = Mul (one, a)
                c = Add (b, minus)
                h = Max (least, c)
                y = Exp (h)
                d = Add (zero, n)
                e = Sub (d, zero)
                m = Neg (e)
                f = And (p, yes)
                q = Not (f)
            }",
            "g (float[2] x, int64[2] n, bool[2] p) => (float[2] y, int64[2] m, bool[2] q) {
                y = Exp (x)
                m = Neg (n)
                q = Not (p)
            }",
        );
    }

    #[test]
    fn expanded_neutral_operands_are_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[B,3] x, bool[3] p) => (float[B,3] y, bool[B,3] q) {
                zero = Constant <value_float: float = 0> ()
                yes = Constant <value = bool {1}> ()
                s = Shape (x)
                z = Expand (zero, s)
                d = Sub (x, z)
                y = Exp (d)
                e = Expand (yes, s)
                q = And (e, p)
            }",
            "g (float[B,3] x, bool[3] p) => (float[B,3] y, bool[B,3] q) {
                s = Shape (x)
                y = Exp (x)
                q = Expand (p, s)
            }",
        );
        rewrites_to(
            &REWRITE,
            "g (int64[B,1,5] n) => (int64[B,3,5] m) {
                ones = Constant <value = int64[1,3,1] {1, 1, 1}> ()
                m = Mul (ones, n)
            }",
            "g (int64[B,1,5] n) => (int64[B,3,5] m) {
                s = Constant <value_ints = [1, 3, 1]> ()
                m = Expand (n, s)
            }",
        );
    }

    #[test]
    fn zero_is_neutral_unless_the_other_operand_may_be_minus_zero() {
        let text = |body: &str| {
            format!(
                "g (int32[B] n, float[B] x) => (float[B] y) {{
                    zero = Constant <value = float {{0}}> () a = Cast <to = 1> (n) {body} }}"
            )
        };
        rewrites_to(&REWRITE, &text("b = Add (zero, a) y = Exp (b)"), &text("y = Exp (a)"));
        stays(&REWRITE, &text("b = Mul (a, x) c = Add (zero, b) y = Exp (c)"));
        // The computed operand is zero unless it is empty.
        let size = "s = Shape (x) k = Cast <to = 1> (s) z = Mul (zero, k)";
        let minus = |body: &str| text(&format!("{size} {body}"));
        rewrites_to(&REWRITE, &minus("b = Sub (x, z) y = Exp (b)"), &text("y = Exp (x)"));
        stays(&REWRITE, &minus("b = Mul (zero, x) c = Sub (x, b) y = Exp (c)"));
    }

    #[test]
    fn unit_axes_of_a_neutral_operand_are_inserted() {
        rewrites_to(
            &REWRITE,
            "g (int32 x) => (int32[1] y) {
                z = Constant <value = int32[1] {0}> () s = Add (x, z) y = Neg (s)
            }",
            "g (int32 x) => (int32[1] y) {
                v0 = Constant <value_ints = [1]> ()
                s = Reshape (x, v0) y = Neg (s)
            }",
        );
    }

    #[test]
    fn operands_that_change_the_result_are_kept() {
        for (value, node) in [
            ("float = 0", "Add (x, c)"),
            ("float = -0.0", "Sub (x, c)"),
            ("float = 0", "Sub (c, x)"),
            ("float = 1", "Div (c, x)"),
            ("float = inf", "Max (x, c)"),
        ] {
            let constant = format!("c = Constant <value_float: {value}> ()");
            let text = format!("g (float[2] x) => (float[2] y) {{ {constant} y = {node} }}");
            stays(&REWRITE, &text);
        }
        let text =
            "g (float[2] x) => (float[2] y) <float[2] scale = {1, 1}> { y = Mul (x, scale) }";
        stays(&REWRITE, text);
    }
}
