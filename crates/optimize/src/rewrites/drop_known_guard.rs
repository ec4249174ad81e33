//! Drops guards against numbers that cannot occur: `Clip`, `Max`, `Min`, `Abs` and `Relu` without
//! effect, and `Where` with equal branches or a condition that is always true or always false.
//!
//! Kernels of `Where` may return `0.0` for a selected `-0.0`. This rewrite preserves the sign, as
//! the specification requires.

use onnx::facts::{FloatInterval, Interval};
use onnx::{ValueId, attrs};
use tensor::{DType, Dim};

use super::expand_after_movement::with_unit_axes;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::of("drop_known_guard", &["Abs", "Clip", "Max", "Min", "Relu", "Where"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let kept = match m.root().op.name {
        "Where" => choice(m)?,
        "Clip" => clipped(m)?,
        "Abs" | "Relu" => positive(m)?,
        _ => extreme(m)?,
    };
    if let Some(same) = with_unit_axes(m, kept, m.result()?)? {
        return Ok(vec![same]);
    }
    let shape = m.ty(m.result()?).static_shape().ok_or("what stays is broadcast")?;
    let shape = m.i64s(&shape);
    Ok(vec![m.op("Expand", &[kept, shape], attrs! {})?])
}

fn choice(m: &Match<'_>) -> Result<ValueId, Skip> {
    let (condition, yes, no) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    if yes == no {
        return Ok(yes);
    }
    let holds = m.facts().truth(condition).ok_or("the condition varies")?;
    Ok(if holds { yes } else { no })
}

fn clipped(m: &Match<'_>) -> Result<ValueId, Skip> {
    let x = m.operand(0)?;
    if m.ty(x).dtype.is_float() {
        let found = floats(m, x)?;
        let bounds = |index: usize| m.root().input(index).map(|bound| floats(m, bound)).transpose();
        let (low, high) = (bounds(1)?, bounds(2)?);
        let inside = low.is_none_or(|low| found.is_above(&low))
            && high.is_none_or(|high| high.is_above(&found));
        let outside = "an element may be out of bounds, or NaN";
        return if inside && !found.has_nan { Ok(x) } else { Err(outside.into()) };
    }
    let range = integers(m, x)?;
    let bound = |index: usize| match m.root().input(index) {
        None => Ok(None),
        Some(value) => m.facts().interval(value).low.map(Some).ok_or("a bound is not known"),
    };
    let (low, high) = (bound(1)?, bound(2)?);
    let inside = low.is_none_or(|low| range.is_at_least(&low))
        && high.is_none_or(|high| range.is_at_most(&high));
    if inside { Ok(x) } else { Err("an element may be out of bounds".into()) }
}

fn extreme(m: &Match<'_>) -> Result<ValueId, Skip> {
    let [Some(a), Some(b)] = *m.root().inputs else {
        return Err("it does not have two operands".into());
    };
    let is_max = m.root().is("Max");
    if m.ty(a).dtype.is_float() {
        let (x, y) = (floats(m, a)?, floats(m, b)?);
        let (first, second) = if is_max { (x, y) } else { (y, x) };
        return match (first.is_above(&second), second.is_above(&first)) {
            // `Max` and `Min` propagate NaN from either operand.
            (true, _) if is_max || !first.has_nan => Ok(a),
            (_, true) if is_max || !second.has_nan => Ok(b),
            _ => Err("either operand may be chosen".into()),
        };
    }
    let (x, y) = (integers(m, a)?, integers(m, b)?);
    let above = |x: &Interval, y: &Interval| {
        let least = |low: &Dim| y.is_at_most(low);
        x.low.as_ref().is_some_and(least)
    };
    if above(&x, &y) {
        Ok(if is_max { a } else { b })
    } else if above(&y, &x) {
        Ok(if is_max { b } else { a })
    } else {
        Err("either operand may be chosen".into())
    }
}

fn positive(m: &Match<'_>) -> Result<ValueId, Skip> {
    let x = m.operand(0)?;
    match floats(m, x)?.is_non_negative() {
        true => Ok(x),
        false => Err("an element may be negative".into()),
    }
}

/// Returns the analysis of floats for a non-empty result.
fn floats(m: &Match<'_>, value: ValueId) -> Result<FloatInterval, Skip> {
    Ok(m.facts().float_interval(value, &m.ty(m.result()?).shape))
}

fn integers(m: &Match<'_>, value: ValueId) -> Result<Interval, Skip> {
    let dtype: DType = m.ty(value).dtype;
    if dtype.is_integer() {
        Ok(m.facts().interval(value))
    } else {
        Err("the operands are not integers".into())
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, rewritten, stays};

    #[test]
    fn results_of_argmax_are_in_range() {
        rewrites_to(
            &REWRITE,
            "g (float[B,7] x) => (int64[B] y) {
                i = ArgMax <axis = 1, keepdims = 0> (x)
                zero = Constant <value_int = 0> ()
                seven = Constant <value_int = 7> ()
                six = Constant <value_int = 6> ()
                n = Less (i, zero)
                s = Add (i, seven)
                w = Where (n, s, i)
                c = Clip (w, zero, six)
                y = Neg (c)
            }",
            "g (float[B,7] x) => (int64[B] y) {
                i = ArgMax <axis = 1, keepdims = 0> (x)
                y = Neg (i)
            }",
        );
    }

    #[test]
    fn a_size_is_a_bound() {
        rewrites_to(
            &REWRITE,
            "g (float[T,7] x) => (int64[1] y) {
                t = Shape <end = 1> (x)
                one = Constant <value_ints = [1]> ()
                last = Sub (t, one)
                zero = Constant <value_ints = [0]> ()
                a = Max (last, zero)
                b = Min (a, last)
                y = Neg (b)
            }",
            "g (float[T,7] x) => (int64[1] y) {
                t = Shape <end = 1> (x)
                one = Constant <value_ints = [1]> ()
                last = Sub (t, one)
                y = Neg (last)
            }",
        );
    }

    #[test]
    fn a_known_choice_is_made() {
        rewrites_to(
            &REWRITE,
            "g (float[2] a, float b) => (float[2] y) {
                yes = Constant <value = bool[2] {1, 1}> ()
                no = Constant <value = bool {0}> ()
                t = Where (yes, a, b)
                u = Where (no, b, t)
                v = Where (no, u, b)
                w = Where (yes, b, b)
                p = Sub (u, v)
                y = Sub (p, w)
            }",
            "g (float[2] a, float b) => (float[2] y) {
                v0 = Constant <value_ints = [2]> ()
                v = Expand (b, v0)
                w = Expand (b, v0)
                p = Sub (a, v)
                y = Sub (p, w)
            }",
        );
        stays(
            &REWRITE,
            "g (float a, float[2] b) => (float[2] y) {
                some = Constant <value = bool[2] {1, 0}> ()
                y = Where (some, a, b)
            }",
        );
    }

    #[test]
    fn guards_that_may_trigger_are_unchanged() {
        for (op, of) in [("Clip (i, zero, six)", "int32"), ("Clip (u, zero, six)", "uint8")] {
            stays(
                &REWRITE,
                &format!(
                    "g ({of}[3] i) => ({of}[3] y) {{
                        zero = Constant <value = {of} {{0}}> ()
                        six = Constant <value = {of} {{6}}> ()
                        u = Identity (i)
                        y = {op}
                    }}"
                ),
            );
        }
        // The addition may wrap around.
        stays(
            &REWRITE,
            "g (int32[3] i) => (int32[3] y) {
                zero = Constant <value = int32 {0}> ()
                most = Constant <value = int32 {2147483647}> ()
                a = Clip (i, zero, most)
                one = Constant <value = int32 {1}> ()
                b = Add (a, one)
                y = Max (b, zero)
            }",
        );
    }

    #[test]
    fn guards_of_floats_are_dropped_only_if_redundant() {
        let text = |number: &str, body: &str| {
            format!(
                "g (float[B,H] x) => (float[H] y) {{
                    front = Constant <value_ints = [0]> () zero = Constant <value_int = 0> ()
                    one = Constant <value_int = 1> () c = Constant <value = float {{{number}}}> ()
                    none = Constant <value_float = 0.0> ()
                    high = Constant <value_float = 2147483520.0> ()
                    h = Shape <start = 1> (x) hs = Squeeze (h, front) n = Cast <to = 1> (hs)
                    r = Range (zero, hs, one) f = Cast <to = 1> (r) s = Add (f, c)
                    q = Div (s, n) {body} }}"
            )
        };
        for guarded in [
            "g = Abs (q) y = Exp (g)",
            "g = Relu (q) y = Exp (g)",
            "g = Max (none, q) y = Exp (g)",
            "g = Clip (q, none, high) y = Exp (g)",
            "i = IsNaN (q) g = Where (i, none, q) y = Exp (g)",
            "i = GreaterOrEqual (q, none) g = Where (i, q, none) y = Exp (g)",
        ] {
            rewrites_to(&REWRITE, &text("0.5", guarded), &text("0.5", "y = Exp (q)"));
            if !guarded.contains("IsNaN") {
                stays(&REWRITE, &text("-0.5", guarded));
            }
            if guarded.contains("Clip") || guarded.contains("IsNaN") {
                stays(&REWRITE, &text("nan", guarded));
            }
        }
    }

    #[test]
    fn clips_with_one_redundant_bound_are_unchanged() {
        let text = |low: i64, high: i64| {
            format!(
                "g (float[B,7] x) => (int64[B] y) {{
                    i = ArgMax <axis = 1, keepdims = 0> (x)
                    low = Constant <value_int = {low}> () high = Constant <value_int = {high}> ()
                    c = Clip (i, low, high) y = Neg (c) }}"
            )
        };
        assert!(!rewritten(&REWRITE, &text(0, 6)).contains("Clip"));
        stays(&REWRITE, &text(1, 6));
        stays(&REWRITE, &text(0, 5));
        let floats = |low: &str, high: &str| {
            format!(
                "g (float[2] x) => (float[2] y) {{
                    low = Constant <value_float = {low}> () high = Constant <value_float = {high}> ()
                    none = Constant <value_float = 0.0> () h = Shape (x) q = Cast <to = 1> (h)
                    c = Clip (q, low, high) y = Add (x, c) }}"
            )
        };
        assert!(!rewritten(&REWRITE, &floats("0.0", "9e18")).contains("Clip"));
        stays(&REWRITE, &floats("3.0", "9e18"));
        stays(&REWRITE, &floats("0.0", "1.0"));
    }

    /// `Min` returns NaN if either operand is NaN, and else the smaller one.
    #[test]
    fn a_minimum_that_may_be_nan_is_unchanged() {
        let text = |addend: &str| {
            format!(
                "g (float[3] x) => (float[3] y) {{
                    zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
                    three = Constant <value_int = 3> () c = Constant <value_float = {addend}> ()
                    low = Constant <value_float = -5.0> () r = Range (zero, three, one)
                    f = Cast <to = 1> (r) q = Add (f, c) m = Min (q, low) y = Add (x, m) }}"
            )
        };
        for order in ["Min (q, low)", "Min (low, q)"] {
            let text = |addend| text(addend).replace("Min (q, low)", order);
            assert!(!rewritten(&REWRITE, &text("0.5")).contains("Min"));
            stays(&REWRITE, &text("nan"));
        }
    }
}
