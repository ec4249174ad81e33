//! `Where(triangle, x, 0)` → `Trilu(x)`. `Softmax(Where(triangle, x, c))` → `Softmax(Trilu(x) +
//! Where(triangle, 0, c))`, if the added mask is a constant or shared. `Where(triangle, 0, c)` of
//! symbolic size → `Trilu(Expand(c))`.
//!
//! Kernels of `Where` may run on one thread and pass over all elements three times. `Trilu` works
//! in place and writes half of them, and `Add` uses all threads. Hidden elements stay hidden, even
//! NaN, because they are zero before the addition. Adding zero may change the sign of a zero, which
//! does not affect a softmax.

use onnx::facts::Triangle;
use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Tensor};

use super::masked::{Masked, added, softmax};
use crate::recognize::check_movement;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("Trilu", &["Where"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    if m.constant(m.operand(1)?).is_some() && m.constant(m.operand(2)?).is_some() {
        return Ok(vec![filled(m)?]);
    }
    let masked = Masked::at(m)?;
    let Masked { mask, x, is_shown, fill } = masked;
    let ty = m.ty(x).clone();
    let triangle = m.facts().triangle(mask, &ty.shape).ok_or("the mask is not a triangle")?;
    let kept = if is_shown { triangle } else { triangle.complement() };
    if fill == 0.0 && fill.is_sign_positive() {
        check_movement(m.forms(), "Trilu", "", ty.dtype)?;
        return Ok(vec![cut(m, x, kept)?]);
    }
    check_movement(m.forms(), "Trilu", "softmax", ty.dtype)?;
    softmax(m)?;
    let added = added(m, &masked)?;
    let cut = cut(m, x, kept)?;
    Ok(vec![m.op("Add", &[cut, added], Attrs::new())?])
}

/// Returns a number inside the triangle and zero elsewhere, in place of a choice between the two.
fn filled(m: &mut Match<'_>) -> Result<ValueId, Skip> {
    let (mask, yes, no) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    let ty = m.ty(m.result()?).clone();
    // Other choices by the mask, those of other layers, are about to be replaced as well.
    let is_choice = |id| m.graph().node(id).is("Where");
    if m.constant(mask).is_some() || !m.graph().value(mask).consumers().all(is_choice) {
        return Err("the mask is computed anyway".into());
    }
    let triangle = m.facts().triangle(mask, &ty.shape).ok_or("the mask is not a triangle")?;
    let is_zero = |value| {
        let number = m.number(value);
        number.is_some_and(|number| number == 0.0 && number.is_sign_positive())
    };
    let (fill, kept) = match (is_zero(yes), is_zero(no)) {
        (true, false) => (no, triangle.complement()),
        (false, true) => (yes, triangle),
        _ => return Err("neither number is zero".into()),
    };
    check_movement(m.forms(), "Trilu", "", ty.dtype)?;
    // One size at a time, so that inputs come before the mask, which would have to be computed.
    let sizes = ty.shape.iter().map(|dim| m.sizes(std::slice::from_ref(dim), mask));
    let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
    let sizes = m.op("Concat", &sizes, attrs! { axis: 0 })?;
    let filled = m.op("Expand", &[fill, sizes], Attrs::new())?;
    cut(m, filled, kept)
}

/// Returns `x` inside the triangle and zero elsewhere.
fn cut(m: &mut Match<'_>, x: ValueId, kept: Triangle) -> Result<ValueId, Skip> {
    let mut operands = vec![x];
    if kept.k != 0 {
        let k = Tensor::int_scalar(DType::I64, i128::from(kept.k)).ok_or("no such diagonal")?;
        operands.push(m.tensor(k));
    }
    // Upper triangles are the default.
    let attrs = if kept.upper {
        Attrs::new()
    } else {
        attrs! { upper: 0 }
    };
    m.op("Trilu", &operands, attrs)
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn a_triangle_is_cut_out() {
        rewrites_to(
            &REWRITE,
            "g (float[4,2,3] x) => (float[4,2,3] y) {
                mask = Constant <value = bool[2,3] {1, 0, 0, 1, 1, 0}> ()
                zero = Constant <value_float = 0.0> ()
                y = Where (mask, x, zero)
            }",
            "g (float[4,2,3] x) => (float[4,2,3] y) { y = Trilu <upper = 0> (x) }",
        );
        rewrites_to(
            &REWRITE,
            "g (float[3,3] x) => (float[3,3] y) {
                mask = Constant <value = bool[3,3] {1, 1, 0, 1, 1, 1, 1, 1, 1}> ()
                zero = Constant <value_float = 0.0> ()
                y = Where (mask, zero, x)
            }",
            "g (float[3,3] x) => (float[3,3] y) {
                k = Constant <value = int64 {2}> ()
                y = Trilu (x, k)
            }",
        );
    }

    #[test]
    fn other_choices_are_unchanged() {
        let stays_with = |mask: &str, fill: &str| {
            stays(
                &REWRITE,
                &format!(
                    "g (float[2,2] x) => (float[2,2] y) {{
                        mask = Constant <value = bool{mask}> ()
                        fill = Constant <value_float = {fill}> ()
                        y = Where (mask, x, fill)
                    }}"
                ),
            );
        };
        stays_with("[2,2] {1, 0, 0, 1}", "0.0");
        stays_with("[2,2] {1, 1, 1, 1}", "0.0");
        stays_with("[2,1] {0, 1}", "0.0");
        stays_with("[1,2] {0, 1}", "0.0");
        stays_with("[2,2] {1, 0, 1, 1}", "-0.0");
        stays_with("[2,2] {1, 0, 1, 1}", "1.0");
    }

    #[test]
    fn hidden_scores_are_zeroed_before_the_mask_is_added() {
        rewrites_to(
            &REWRITE,
            "g (float[4,2,2] x) => (float[4,2,2] y) {
                mask = Constant <value = bool[2,2] {1, 0, 1, 1}> ()
                low = Constant <value_float = -1e9> ()
                s = Where (mask, x, low)
                y = Softmax <axis = -1> (s)
            }",
            "g (float[4,2,2] x) => (float[4,2,2] y) {
                mask = Constant <value = bool[2,2] {1, 0, 1, 1}> ()
                zero = Constant <value_float = 0.0> ()
                low = Constant <value_float = -1e9> ()
                v3 = Where (mask, zero, low)
                v4 = Trilu <upper = 0> (x)
                s = Add (v4, v3)
                y = Softmax <axis = -1> (s)
            }",
        );
    }

    #[test]
    fn triangles_of_symbolic_size_are_recognised() {
        rewrites_to(
            &REWRITE,
            "g (float[B,T,T] x) => (float[B,T,T] y) {
                n = Shape <start = 1, end = 2> (x)
                none = Constant <value_ints = [0]> ()
                size = Squeeze (n, none)
                start = Constant <value = int64 {0}> ()
                step = Constant <value = int64 {1}> ()
                places = Range (start, size, step)
                one = Constant <value_ints = [1]> ()
                rows = Unsqueeze (places, one)
                by = Constant <value = int64 {-1}> ()
                below = Add (rows, by)
                mask = GreaterOrEqual (below, places)
                zero = Constant <value_float = 0.0> ()
                y = Where (mask, x, zero)
            }",
            "g (float[B,T,T] x) => (float[B,T,T] y) {
                k = Constant <value = int64 {-1}> ()
                y = Trilu <upper = 0> (x, k)
            }",
        );
    }

    #[test]
    fn a_mask_of_symbolic_size_is_filled() {
        let text = |mask: &str, sides: &str| {
            format!(
                "g (float[B,T] x) => (float[T,T] y) {{
                    n = Shape <start = 1, end = 2> (x)
                    none = Constant <value_ints = [0]> ()
                    size = Squeeze (n, none)
                    start = Constant <value = int64 {{0}}> ()
                    step = Constant <value = int64 {{1}}> ()
                    places = Range (start, size, step)
                    one = Constant <value_ints = [1]> ()
                    rows = Unsqueeze (places, one)
                    mask = {mask}
                    zero = Constant <value_float = 0.0> ()
                    low = Constant <value_float = -1e9> ()
                    y = Where (mask, {sides})
                }}"
            )
        };
        let filled = "g (float[B,T] x) => (float[T,T] y) {
                    low = Constant <value_float = -1e9> ()
                    k = Constant <value = int64 {1}> ()
                    v0 = Shape <start = 1, end = 2> (x)
                    v1 = Shape <start = 1, end = 2> (x)
                    v2 = Concat <axis = 0> (v0, v1)
                    v4 = Expand (low, v2)
                    y = Trilu (v4, k)
                }";
        let causal = "GreaterOrEqual (rows, places)";
        rewrites_to(&REWRITE, &text(causal, "zero, low"), filled);
        let strict = "Less (rows, places)";
        rewrites_to(&REWRITE, &text(strict, "low, zero"), filled);
        stays(&REWRITE, &text(causal, "low, low"));
        stays(&REWRITE, &text("Equal (rows, places)", "zero, low"));
    }

    #[test]
    fn positions_that_a_person_may_replace_are_no_triangle() {
        let text = |positions: &str, declared: &str| {
            format!(
                "g (float[2,2] x) => (float[2,2] y) {declared} {{
                    {positions}
                    one = Constant <value_ints = [1]> ()
                    rows = Unsqueeze (positions, one)
                    mask = GreaterOrEqual (rows, positions)
                    zero = Constant <value_float = 0.0> ()
                    y = Where (mask, x, zero)
                }}"
            )
        };
        let constant = text("positions = Constant <value_ints = [0, 1]> ()", "");
        let cut = "g (float[2,2] x) => (float[2,2] y) { y = Trilu <upper = 0> (x) }";
        rewrites_to(&REWRITE, &constant, cut);
        stays(&REWRITE, &text("", "<int64[2] positions = {0, 1}>"));
    }
}
