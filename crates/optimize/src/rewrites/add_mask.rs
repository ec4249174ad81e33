//! `Softmax(Where(mask, x, c))` → `Softmax(x + Where(mask, 0, c))`, if the mask hides no NaN and no
//! infinity: either the user promises it, or the hidden scores are bounded. Kernels of `Where`
//! may run on one thread, those of `Add` run on all.
//!
//! In JAX, a fully masked row has equal weights. So either `c` must absorb every score that is
//! added to it, or every row must have a visible score, next to which the weights of hidden ones
//! vanish.

use onnx::{Assumption, Attrs, ValueId};
use tensor::DType;

use super::masked::{Masked, added, shows_some_of_each_row, softmax};
use super::masked_scores::Scores;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("add_mask", &["Where"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let masked = Masked::at(m)?;
    let Masked { x, fill, .. } = masked;
    let softmax = softmax(m)?;
    let dtype = m.ty(x).dtype;
    let last = m.ty(x).shape.len() as i64 - 1;
    let is_last = matches!(softmax.int("axis", -1), axis if axis == -1 || axis == last);
    let largest = if m.graph().assumptions.contains(Assumption::NoNan) {
        promised(fill, dtype)
    } else {
        let is_settled = is_last && !m.forms().narrows;
        let scores = is_settled.then(|| Scores::of(m.graph(), x, softmax)).flatten();
        let scores = scores.ok_or("NaN may be hidden")?;
        if scores.needs_shown && !shows_some_of_each_row(m, &masked) {
            return Err("NaN may be hidden in a row that shows nothing".into());
        }
        scores.largest
    };
    let vanishes = softmax.is("Softmax") && is_last && fill + 2.0 * largest < -vanishing(dtype);
    if !(swallows(fill, largest, dtype) || (vanishes && shows_some_of_each_row(m, &masked))) {
        return Err("the fill value would not absorb the scores".into());
    }
    let added = added(m, &masked)?;
    Ok(vec![m.op("Add", &[x, added], Attrs::new())?])
}

/// Returns the largest score to expect if the user promises that scores are not NaN: a quarter of
/// `fill`, or 1e28 if `fill` is close to the limit of a type with a large range.
fn promised(fill: f64, dtype: DType) -> f64 {
    let has_range = matches!(dtype, DType::F32 | DType::F64 | DType::BF16);
    match fill {
        ..=-1e36 if has_range => 1e28,
        ..=-1e4 => fill.abs() / 4.0,
        _ => f64::INFINITY,
    }
}

/// Returns `true` if adding numbers up to `largest` does not change `number`.
fn swallows(number: f64, largest: f64, dtype: DType) -> bool {
    let Some((_, mantissa)) = dtype.float_fields() else { return false };
    number == f64::NEG_INFINITY || largest < number.abs() * (-f64::from(mantissa) - 2.0).exp2()
}

/// Returns the difference to the maximum beyond which an exponential is zero.
fn vanishing(dtype: DType) -> f64 {
    if dtype == DType::F64 { 800.0 } else { 200.0 }
}

#[cfg(test)]
mod tests {
    use onnx::Assumption;

    use super::{REWRITE, promised, swallows, vanishing};
    use crate::testing::{operators_assuming, rewritten, stays};
    use tensor::DType;

    #[test]
    fn nan_may_be_hidden_unless_promised_otherwise() {
        stays(
            &REWRITE,
            "g (float[4,2,2] x) => (float[4,2,2] y) {
                mask = Constant <value = bool[2,2] {1, 0, 1, 1}> ()
                low = Constant <value_float = -1e38> ()
                s = Where (mask, x, low)
                y = Softmax <axis = -1> (s)
            }",
        );
    }

    #[test]
    fn numbers_absorb_addends_below_their_last_digit() {
        assert!(swallows(f64::NEG_INFINITY, 1e300, DType::F64));
        assert!(swallows(-1e9, 25.0, DType::F32));
        assert!(!swallows(-1e9, 35.0, DType::F32));
        assert!(!swallows(-1e9, 25.0, DType::I32));
    }

    /// Attention to two tokens with four features, with two heads.
    struct Attention<'a> {
        batch: &'a str,
        norm: &'a str,
        weights: &'a str,
        fill: &'a str,
        queries: &'a str,
        keys: &'a str,
        values: &'a str,
        then: &'a str,
    }

    const PLAIN: Attention<'_> = Attention {
        batch: "3",
        norm: "LayerNormalization <axis = -1> (x, scale, bias)",
        weights: "0.5",
        fill: "-1e9",
        queries: "y",
        keys: "y",
        values: "y",
        then: "Identity (p)",
    };

    impl Attention<'_> {
        fn text(&self) -> String {
            let Self { batch, norm, weights, fill, queries, keys, values, then } = self;
            let matrix = vec![*weights; 16].join(", ");
            format!(
                "g (float[{batch},2,4] x, float[{batch},2,4] z) => (float[{batch},2,2,2] out, float[{batch},2,2,2] same) {{
                    scale = Constant <value = float[4] {{1, 2, 1, 1}}> ()
                    bias = Constant <value = float[4] {{0, 1, 0, 0}}> ()
                    w = Constant <value = float[4,4] {{{matrix}}}> ()
                    mask = Constant <value = bool[2,2] {{1, 0, 1, 1}}> ()
                    low = Constant <value_float = {fill}> ()
                    heads = Constant <value_ints = [0, 2, 2, 2]> ()
                    y = {norm}
                    other = LayerNormalization <axis = -1> (z, scale, bias)
                    q1 = MatMul ({queries}, w)
                    q2 = Reshape (q1, heads)
                    q = Transpose <perm = [0, 2, 1, 3]> (q2)
                    k1 = MatMul ({keys}, w)
                    k2 = Reshape (k1, heads)
                    k = Transpose <perm = [0, 2, 3, 1]> (k2)
                    v1 = MatMul ({values}, w)
                    v2 = Reshape (v1, heads)
                    v = Transpose <perm = [0, 2, 1, 3]> (v2)
                    scores = MatMul (q, k)
                    s = Where (mask, scores, low)
                    p = Softmax <axis = -1> (s)
                    out = MatMul (p, v)
                    same = {then}
                }}"
            )
            .replace("same = Identity (p)", "same = Identity (out)")
        }

        fn is_added(&self) -> bool {
            rewritten(&REWRITE, &self.text()).contains("Add (scores")
        }
    }

    #[test]
    fn scores_bounded_by_a_norm_hide_no_nan() {
        assert!(PLAIN.is_added());
        assert!(Attention { batch: "B", ..PLAIN }.is_added());
        let rms = "RMSNormalization <axis = -1> (x, scale)";
        assert!(Attention { norm: rms, ..PLAIN }.is_added());
        assert!(Attention { fill: "-inf", ..PLAIN }.is_added());
        // Every row has a visible score, so a NaN in a query stays visible.
        assert!(Attention { queries: "other", ..PLAIN }.is_added());
    }

    #[test]
    fn unbounded_scores_may_hide_nan() {
        assert!(!Attention { norm: "Neg (x)", ..PLAIN }.is_added());
        assert!(!Attention { weights: "1e19", ..PLAIN }.is_added());
        assert!(!Attention { weights: "1e4", ..PLAIN }.is_added());
        assert!(Attention { weights: "1e4", fill: "-1e38", ..PLAIN }.is_added());
        assert!(!Attention { fill: "-300.0", ..PLAIN }.is_added());
    }

    #[test]
    fn values_from_another_source_do_not_propagate_nan() {
        assert!(!Attention { values: "other", ..PLAIN }.is_added());
        assert!(!Attention { keys: "other", ..PLAIN }.is_added());
        assert!(!Attention { then: "Relu (p)", ..PLAIN }.is_added());
    }

    /// The last axis of the keys is a token, and a feature of the values.
    #[test]
    fn rows_that_are_features_of_the_values_hide_nan() {
        let matrix = vec!["0.5"; 16].join(", ");
        let text = format!(
            "g (float[3,4,4,4] x, float[3,4,4,4] z) => (float[3,4,4,4] out) {{
                scale = Constant <value = float[4] {{1, 2, 1, 1}}> ()
                w = Constant <value = float[4,4] {{{matrix}}}> ()
                mask = Constant <value = bool[4] {{1, 0, 1, 1}}> ()
                low = Constant <value_float = -1e9> ()
                y = LayerNormalization <axis = -1> (x, scale)
                other = LayerNormalization <axis = -1> (z, scale)
                q = MatMul (other, w)
                y1 = MatMul (y, w)
                k = Transpose <perm = [0, 2, 3, 1]> (y1)
                v = Transpose <perm = [0, 3, 2, 1]> (y1)
                scores = MatMul (q, k)
                s = Where (mask, scores, low)
                p = Softmax <axis = -1> (s)
                out = MatMul (p, v)
            }}"
        );
        stays(&REWRITE, &text);
    }

    #[test]
    fn scores_are_promised_to_be_far_from_the_fill_value() {
        for (fill, dtype, largest) in [
            (-1e38, DType::F32, 1e28),
            (-1e38, DType::BF16, 1e28),
            (-1e300, DType::F64, 1e28),
            (-65504.0, DType::F16, 16376.0),
            (-1e36, DType::F16, 2.5e35),
            (-1e9, DType::F32, 2.5e8),
            (-9999.0, DType::F32, f64::INFINITY),
            (0.0, DType::F32, f64::INFINITY),
        ] {
            assert_eq!(promised(fill, dtype), largest, "{fill} {dtype}");
        }
    }

    #[test]
    fn exponentials_vanish_beyond_a_difference() {
        assert_eq!((-vanishing(DType::F64)).exp(), 0.0);
        assert!((-vanishing(DType::F32)).exp() > 0.0);
        let least_in_32_bits = f64::from(f32::from_bits(1));
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            assert!((-vanishing(dtype)).exp() < least_in_32_bits / 2.0);
        }
    }

    #[test]
    fn a_promise_admits_masks_of_any_scores() {
        let text = |fill: &str| {
            format!(
                "g (float[4,2,2] x) => (float[4,2,2] y) {{
                    mask = Constant <value = bool[2,2] {{1, 0, 1, 1}}> ()
                    low = Constant <value_float = {fill}> ()
                    s = Where (mask, x, low)
                    y = Softmax <axis = -1> (s)
                }}"
            )
        };
        let after = |fill| operators_assuming(Assumption::NoNan, &REWRITE, &text(fill));
        for (fill, expected) in [
            ("-1e38", "Where Add Softmax"),
            ("-inf", "Where Add Softmax"),
            ("-1e9", "Where Add Softmax"),
            ("-100.0", "Where Softmax"),
        ] {
            assert_eq!(after(fill), expected, "{fill}");
        }
    }

    #[test]
    fn bounded_scores_are_normalised_along_the_last_axis() {
        let along = |axis: i64| {
            let text =
                PLAIN.text().replace("Softmax <axis = -1>", &format!("Softmax <axis = {axis}>"));
            rewritten(&REWRITE, &text).contains("Add (scores")
        };
        assert!(along(3));
        assert!(!along(2));
    }

    #[test]
    fn a_row_that_shows_nothing_hides_the_nan_of_its_query() {
        let hidden = |attention: &Attention<'_>| {
            let text = attention.text().replace("{1, 0, 1, 1}", "{0, 0, 1, 1}");
            rewritten(&REWRITE, &text).contains("Add (scores")
        };
        let absorbing = Attention { fill: "-inf", ..PLAIN };
        assert!(!hidden(&Attention { queries: "other", ..absorbing }));
        assert!(hidden(&absorbing));
        let shown = Attention { queries: "other", ..PLAIN }.text();
        let inverse = |mask: &str| {
            let text = shown
                .replace("{1, 0, 1, 1}", mask)
                .replace("Where (mask, scores, low)", "Where (mask, low, scores)");
            rewritten(&REWRITE, &text).contains("Add (scores")
        };
        assert!(inverse("{0, 1, 0, 0}"));
        assert!(!inverse("{1, 1, 0, 0}"));
    }

    #[test]
    fn weights_are_averaged_after_copies_and_casts() {
        let added = |between: &str| {
            let product = format!("h = {between} (p) out = MatMul (h, v)");
            let text = PLAIN.text().replace("out = MatMul (p, v)", &product);
            rewritten(&REWRITE, &text).contains("Add (scores")
        };
        assert!(added("Identity"));
        assert!(added("Cast <to = 1>"));
        assert!(!added("Neg"));
    }

    /// The first column of a causal mask is visible in every row.
    #[test]
    fn computed_triangles_show_something_of_each_row() {
        let added = |mask: &str, choice: &str| {
            let text = Attention { queries: "other", fill: "-inf", ..PLAIN }.text();
            let text = text
                .replace(
                    "mask = Constant <value = bool[2,2] {1, 0, 1, 1}> ()",
                    &format!(
                        "zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
                         two = Constant <value_int = 2> () column = Range (zero, two, one)
                         last = Constant <value_ints = [1]> () row = Unsqueeze (column, last)
                         mask = {mask}"
                    ),
                )
                .replace("Where (mask, scores, low)", choice);
            rewritten(&REWRITE, &text).contains("Add (scores")
        };
        for (mask, shown, hidden) in [
            ("GreaterOrEqual (row, column)", true, false),
            ("Greater (row, column)", false, false),
            ("LessOrEqual (row, column)", false, false),
            ("Less (row, column)", false, true),
        ] {
            assert_eq!(added(mask, "Where (mask, scores, low)"), shown, "{mask}");
            assert_eq!(added(mask, "Where (mask, low, scores)"), hidden, "not {mask}");
        }
    }
}
