//! Simplifies Boolean expressions: `b == true` → `b`, `b == false` → `Not(b)`, `Not(Not(b))` → `b`,
//! and `b && c` → `b` if `c` is always true. Masks that were cast to numbers are handled likewise.
//! `r != 0 && r < 0` → `r < 0`, which JAX tests to round a quotient down.

use onnx::{Node, ValueId, attrs};
use tensor::{DType, Tensor};

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::of("simplify_truth", &["And", "Equal", "Not"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    match m.root().op.name {
        "Not" => {
            let inner = m.producer(m.operand(0)?, &["Not"]).ok_or("the operand is not a Not")?;
            Ok(vec![inner.input(0).ok_or("an operand is left out")?])
        }
        "Equal" => compared(m),
        _ => conjunction(m),
    }
}

fn compared(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (a, b, y) = (m.operand(0)?, m.operand(1)?, m.result()?);
    let (value, with) = match (m.number(a), m.number(b)) {
        (_, Some(with)) => (a, with),
        (Some(with), _) => (b, with),
        _ => return Err("neither operand is known".into()),
    };
    let truth = match m.ty(value).dtype {
        DType::Bool => Some(value),
        _ => m.producer(value, &["Cast"]).and_then(|node| node.input(0)),
    };
    let truth = truth.filter(|truth| m.ty(*truth).dtype == DType::Bool);
    let truth = truth.ok_or("no booleans are compared")?;
    Skip::when(m.ty(truth) != m.ty(y), "the operand is broadcast")?;
    match with {
        0.0 => Ok(vec![m.op("Not", &[truth], attrs! {})?]),
        1.0 => Ok(vec![truth]),
        _ => Err("truth is neither zero nor one".into()),
    }
}

fn conjunction(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (a, b, y) = (m.operand(0)?, m.operand(1)?, m.result()?);
    for (known, other) in [(a, b), (b, a)] {
        if m.ty(other) == m.ty(y) && m.facts().truth(known) == Some(true) {
            return Ok(vec![other]);
        }
    }
    for (unequal, other) in [(a, b), (b, a)] {
        let Some(rest) = is_not(m, unequal, 0.0) else { continue };
        if m.ty(other) != m.ty(y) || !m.ty(rest).dtype.is_integer() {
            continue;
        }
        let is_negative = m.producer(other, &["Less"]).is_some_and(|less| {
            less.input(0) == Some(rest) && less.input(1).and_then(|v| m.number(v)) == Some(0.0)
        });
        if is_negative {
            return Ok(vec![other]);
        }
        // The divisor is positive, so a non-zero remainder is negative if the number is not
        // positive.
        let signed = is_not(m, other, 1.0).and_then(|sign| m.producer(sign, &["Sign"]));
        let number = signed.and_then(|node| node.input(0));
        let modulo = m.producer(rest, &["Mod"]).filter(|node| is_rest_of(m, node, number));
        if modulo.is_some() {
            let zero = Tensor::int_scalar(m.ty(rest).dtype, 0).ok_or("no zero")?;
            let zero = m.tensor(zero);
            return Ok(vec![m.op("Less", &[rest, zero], attrs! {})?]);
        }
    }
    Err("neither condition implies the other".into())
}

/// Returns `true` if `node` is the truncated remainder of `number` divided by a positive constant.
fn is_rest_of(m: &Match<'_>, node: &Node, number: Option<ValueId>) -> bool {
    let by = node.input(1).and_then(|by| m.number(by));
    number.is_some()
        && node.input(0) == number
        && node.int("fmod", 0) == 1
        && by.is_some_and(|by| by > 0.0)
}

/// Returns `x` if `value` is `x != number`.
fn is_not(m: &Match<'_>, value: ValueId, number: f64) -> Option<ValueId> {
    let equal = m.producer(m.producer(value, &["Not"])?.input(0)?, &["Equal"])?;
    (m.number(equal.input(1)?) == Some(number)).then(|| equal.input(0)).flatten()
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, rewritten, stays};

    #[test]
    fn conditions_that_always_hold_are_dropped() {
        let text = |least: &str| {
            format!(
                "g (float[B] x, bool[B] p) => (bool[B] y) {{
                    zero = Constant <value = float {{{least}}}> ()
                    a = Abs (x) c = Less (a, zero) d = Not (c)
                    n = Shape (x) f = Cast <to = 1> (n) e = GreaterOrEqual (f, zero)
                    q = And (e, p) y = And (q, d) }}"
            )
        };
        rewrites_to(
            &REWRITE,
            &text("0"),
            "g (float[B] x, bool[B] p) => (bool[B] y) { y = Identity (p) }",
        );
        stays(&REWRITE, &text("2"));
    }

    /// Flax's masks are numbers.
    #[test]
    fn a_mask_that_was_cast_to_numbers_is_restored() {
        let text = |number: &str| {
            format!(
                "g (bool[3] b) => (bool[3] y) {{
                    c = Constant <value = float {{{number}}}> ()
                    f = Cast <to = 1> (b)
                    e = Equal (f, c)
                    y = Not (e)
                }}"
            )
        };
        rewrites_to(&REWRITE, &text("0"), "g (bool[3] b) => (bool[3] y) { y = Identity (b) }");
        rewrites_to(&REWRITE, &text("1"), "g (bool[3] b) => (bool[3] y) { y = Not (b) }");
        stays(&REWRITE, &text("0.5"));
    }

    #[test]
    fn comparisons_with_booleans_are_dropped() {
        rewrites_to(
            &REWRITE,
            "g (int32[3] r) => (bool[3] y, bool[3] z) {
                zero = Constant <value = int32 {0}> ()
                no = Constant <value = bool {0}> ()
                yes = Constant <value = bool {1}> ()
                e = Equal (r, zero)
                n = Not (e)
                l = Less (r, zero)
                d = Equal (l, no)
                o = Not (d)
                a = And (n, o)
                y = Identity (a)
                t = Equal (yes, e)
                z = Xor (t, n)
            }",
            "g (int32[3] r) => (bool[3] y, bool[3] z) {
                zero = Constant <value = int32 {0}> ()
                e = Equal (r, zero)
                n = Not (e)
                l = Less (r, zero)
                y = Identity (l)
                z = Xor (e, n)
            }",
        );
    }

    #[test]
    fn a_remainder_has_the_sign_of_the_number() {
        let text = |fmod: i64, by: i64| {
            format!(
                "g (int32[3] x) => (bool[3] y) {{
                    zero = Constant <value = int32 {{0}}> ()
                    one = Constant <value = int32 {{1}}> ()
                    by = Constant <value = int32 {{{by}}}> ()
                    s = Sign (x)
                    p = Equal (s, one)
                    n = Not (p)
                    r = Mod <fmod = {fmod}> (x, by)
                    e = Equal (r, zero)
                    d = Not (e)
                    y = And (n, d)
                }}"
            )
        };
        rewrites_to(
            &REWRITE,
            &text(1, 7),
            "g (int32[3] x) => (bool[3] y) {
                by = Constant <value = int32 {7}> ()
                r = Mod <fmod = 1> (x, by)
                zero = Constant <value = int32 {0}> ()
                y = Less (r, zero)
            }",
        );
        stays(&REWRITE, &text(0, 7));
        stays(&REWRITE, &text(1, -7));
    }

    #[test]
    fn floats_may_be_neither_zero_nor_one() {
        stays(
            &REWRITE,
            "g (float[3] r) => (bool[3] y) {
                zero = Constant <value = float {0}> ()
                e = Equal (r, zero)
                n = Not (e)
                l = Less (r, zero)
                y = And (n, l)
            }",
        );
    }

    #[test]
    fn remainders_of_other_numbers_are_unchanged() {
        let text = |sign: &str, by: i64| {
            format!(
                "g (int32[3] x, int32[3] z) => (bool[3] y) {{
                    zero = Constant <value = int32 {{0}}> ()
                    one = Constant <value = int32 {{1}}> ()
                    by = Constant <value = int32 {{{by}}}> ()
                    s = Sign ({sign}) p = Equal (s, one) n = Not (p)
                    r = Mod <fmod = 1> (x, by) e = Equal (r, zero) d = Not (e) y = And (d, n) }}"
            )
        };
        assert!(!rewritten(&REWRITE, &text("x", 7)).contains("Sign"));
        stays(&REWRITE, &text("z", 7));
        stays(&REWRITE, &text("x", 0));
    }
}
