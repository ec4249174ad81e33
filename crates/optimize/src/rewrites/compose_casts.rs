//! `Cast(Cast(x))` → one `Cast` or `x` itself, if the inner cast is lossless. `Cast(Floor(x))` →
//! `Cast(x)`, if no number is negative: a cast to integers rounds towards zero.

use onnx::{ValueId, attrs};
use tensor::{DType, DTypeKind};

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("compose_casts", &["Cast"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let inner = m.operand(0)?;
    if let Some(x) = m.producer(inner, &["Floor"]).and_then(|node| node.input(0)) {
        return cast_floor(m, x);
    }
    let node = m.producer(inner, &["Cast"]).ok_or("the operand is not a Cast")?;
    let x = node.input(0).ok_or("an operand is missing")?;
    let (from, through, to) = (m.ty(x).dtype, m.ty(inner).dtype, m.ty(m.result()?).dtype);
    let fits = || from.is_integer() && through.is_integer() && m.facts().interval(x).fits(through);
    // Numbers within the range of both types are equal in both.
    if from.is_float() && through.is_integer() && to.is_integer() {
        let found = m.facts().float_interval(x, &m.ty(inner).shape);
        let inside = |dtype: DType| dtype.int_range().is_some_and(|range| found.is_within(range));
        return match inside(through) && inside(to) {
            true => Ok(vec![m.op("Cast", &[x], attrs! { to: to })?]),
            false => Err("the first cast may lose something".into()),
        };
    }
    Skip::when(!is_exact(from, through) && !fits(), "the first cast may lose something")?;
    if from == to {
        return Ok(vec![x]);
    }
    Skip::when(!is_direct(from, through, to), "the casts do not compose")?;
    Ok(vec![m.op("Cast", &[x], attrs! { to: to })?])
}

fn cast_floor(m: &mut Match<'_>, x: ValueId) -> Result<Vec<ValueId>, Skip> {
    let (y, to) = (m.result()?, m.ty(m.result()?).dtype);
    let found = m.facts().float_interval(x, &m.ty(y).shape);
    if !to.is_integer() || found.has_nan || found.low < 0.0 {
        return Err("it may round in another direction".into());
    }
    Ok(vec![m.op("Cast", &[x], attrs! { to: to })?])
}

/// Returns `true` if `to` can represent every value of `from`.
fn is_exact(from: DType, to: DType) -> bool {
    let range = |dtype: DType| if dtype == DType::Bool { Some((0, 1)) } else { dtype.int_range() };
    match (from.float_fields(), to.float_fields()) {
        (Some((exponent, fraction)), Some((wider, longer))) => {
            exponent <= wider && fraction <= longer
        }
        (None, Some((_, fraction))) => range(from).is_some() && from.bits() <= fraction + 1,
        (_, None) => match (range(from), range(to)) {
            (Some((low, high)), Some((least, most))) => least <= low && high <= most,
            _ => false,
        },
    }
}

/// Returns `true` if a cast to `to` has the same result from `from` as from the same values in
/// `through`. If an integer type cannot represent a value, the result of a cast depends on the
/// source type.
fn is_direct(from: DType, through: DType, to: DType) -> bool {
    let plain =
        |dtype: DType| dtype.bits() >= 8 && (!dtype.is_float() || dtype.float_fields().is_some());
    if !plain(from) || !plain(to) {
        return false;
    }
    match to.kind() {
        DTypeKind::Bool | DTypeKind::Float => true,
        DTypeKind::Signed | DTypeKind::Unsigned => {
            from.kind() == DTypeKind::Bool
                || (from.is_integer() && (through.is_integer() || is_exact(from, to)))
        }
        DTypeKind::Complex => false,
    }
}

#[cfg(test)]
mod tests {
    use tensor::DType;

    use super::{REWRITE, is_direct, is_exact};
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn integers_in_range_are_cast_once() {
        let counted = |body: &str| {
            format!(
                "g (float[L] x, int64[L] i) => (float[L] y) {{
                    zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
                    front = Constant <value_ints = [0]> ()
                    n = Shape (x) s = Squeeze (n, front) r = Range (zero, s, one) {body}
                }}"
            )
        };
        rewrites_to(
            &REWRITE,
            &counted("c = Cast <to = 6> (r) y = Cast <to = 1> (c)"),
            &counted("y = Cast <to = 1> (r)"),
        );
        stays(&REWRITE, &counted("c = Cast <to = 6> (i) y = Cast <to = 1> (c)"));
        stays(&REWRITE, &counted("c = Cast <to = 3> (r) y = Cast <to = 1> (c)"));
    }

    #[test]
    fn a_lossless_round_trip_is_dropped() {
        for (outer, inner, code) in [
            ("float", 1, 11),
            ("bfloat16", 16, 1),
            ("int32", 6, 11),
            ("uint8", 2, 10),
            ("bool", 9, 6),
        ] {
            rewrites_to(
                &REWRITE,
                &format!(
                    "g ({outer}[2] x) => ({outer}[2] y) {{
                        t = Cast <to = {code}> (x)
                        u = Cast <to = {inner}> (t)
                        y = Abs (u)
                    }}"
                ),
                &format!("g ({outer}[2] x) => ({outer}[2] y) {{ y = Abs (x) }}"),
            );
        }
    }

    #[test]
    fn lossy_casts_are_unchanged() {
        // f32 → bf16 → f32, f64 → f32 → f64, i64 → f64 → i64, i32 → i8 → i32, u8 → i8 → u8.
        for (outer, own, through) in [
            ("float", 1, 16),
            ("double", 11, 1),
            ("int64", 7, 11),
            ("int32", 6, 3),
            ("uint8", 2, 3),
        ] {
            stays(
                &REWRITE,
                &format!(
                    "g ({outer}[2] x) => ({outer}[2] y) {{
                        t = Cast <to = {through}> (x)
                        y = Cast <to = {own}> (t)
                    }}"
                ),
            );
        }
    }

    #[test]
    fn a_widening_cast_is_skipped() {
        rewrites_to(
            &REWRITE,
            "g (float[2] x) => (float16[2] y) { t = Cast <to = 11> (x) y = Cast <to = 10> (t) }",
            "g (float[2] x) => (float16[2] y) { y = Cast <to = 10> (x) }",
        );
    }

    #[test]
    fn casts_from_floats_to_integers_do_not_compose() {
        stays(
            &REWRITE,
            "g (float[2] x) => (int8[2] y) { t = Cast <to = 11> (x) y = Cast <to = 3> (t) }",
        );
        stays(
            &REWRITE,
            "g (int32[2] x) => (int8[2] y) { t = Cast <to = 11> (x) y = Cast <to = 3> (t) }",
        );
    }

    #[test]
    fn small_floats_become_integers_in_one_step() {
        let text = |low: &str, high: &str, body: &str| {
            format!(
                "g (int32[2] n) => (int64[2] y) {{
                    low = Constant <value = int32 {{{low}}}> () high = Constant <value = int32 {{{high}}}> ()
                    c = Clip (n, low, high) f = Cast <to = 1> (c)
                    half = Constant <value_float = 0.5> () x = Mul (f, half) {body} }}"
            )
        };
        let (rounded, plain) =
            ("r = Floor (x) t = Cast <to = 3> (r) y = Cast <to = 7> (t)", "y = Cast <to = 7> (x)");
        rewrites_to(&REWRITE, &text("0", "100", rounded), &text("0", "100", plain));
        // Rounding down differs from rounding towards zero.
        let cast = "r = Floor (x) t = Cast <to = 3> (r) y = Cast <to = 7> (t)";
        let once = "r = Floor (x) y = Cast <to = 7> (r)";
        rewrites_to(&REWRITE, &text("-3", "100", cast), &text("-3", "100", once));
        // An 8-bit integer wraps around.
        stays(&REWRITE, &text("0", "1000", "t = Cast <to = 3> (x) y = Cast <to = 7> (t)"));
    }

    #[test]
    fn exact_casts_keep_every_value() {
        use DType::*;
        let types = [Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64];
        let holds = |to: DType| -> &[DType] {
            match to {
                Bool => &[Bool],
                I8 => &[Bool, I8],
                U8 => &[Bool, U8],
                I16 => &[Bool, I8, U8, I16],
                U16 => &[Bool, U8, U16],
                I32 => &[Bool, I8, U8, I16, U16, I32],
                U32 => &[Bool, U8, U16, U32],
                I64 => &[Bool, I8, U8, I16, U16, I32, U32, I64],
                U64 => &[Bool, U8, U16, U32, U64],
                F16 => &[Bool, I8, U8, F16],
                BF16 => &[Bool, I8, U8, BF16],
                F32 => &[Bool, I8, U8, I16, U16, F16, BF16, F32],
                F64 => &[Bool, I8, U8, I16, U16, I32, U32, F16, BF16, F32, F64],
                _ => &[],
            }
        };
        for (from, to) in types.iter().flat_map(|from| types.iter().map(move |to| (*from, *to))) {
            assert_eq!(is_exact(from, to), holds(to).contains(&from), "{from} {to}");
        }
        assert!(!is_exact(F8E4M3FN, F32) && !is_exact(F32, F8E4M3FN) && !is_exact(C64, F64));
    }

    /// A cast of a number out of range depends on the type that it is cast from.
    #[test]
    fn casts_out_of_range_depend_on_the_type_before() {
        use DType::*;
        for (from, through, to, expected) in [
            (F32, F64, F16, true),
            (F32, F64, Bool, true),
            (F32, F64, I8, false),
            (I32, I64, I8, true),
            (I32, F64, I8, false),
            (I8, F64, I32, true),
            (Bool, F32, I8, true),
            (I32, F64, F16, true),
            (U4, I64, I8, false),
            (I32, I64, U4, false),
            (F8E4M3FN, F32, F16, false),
            (F16, F32, F8E4M3FN, false),
            (F32, F64, C64, false),
        ] {
            assert_eq!(is_direct(from, through, to), expected, "{from} {through} {to}");
        }
    }

    #[test]
    fn rounding_down_is_kept_before_casts_to_floats_and_of_unknown_numbers() {
        for (input, to, code) in [
            ("Abs (x)", "int64", 7),
            ("Identity (x)", "int64", 7),
            ("Cast <to = 1> (c)", "float16", 10),
        ] {
            stays(
                &REWRITE,
                &format!(
                    "g (float[2] x, int32[2] i) => ({to}[2] y) {{
                        low = Constant <value = int32 {{0}}> () high = Constant <value = int32 {{9}}> ()
                        c = Clip (i, low, high) n = {input} r = Floor (n) y = Cast <to = {code}> (r) }}"
                ),
            );
        }
    }

    #[test]
    fn floats_that_are_rounded_on_the_way_to_floats_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[2] x) => (float[2] y) { t = Cast <to = 6> (x) y = Cast <to = 1> (t) }",
        );
    }
}
