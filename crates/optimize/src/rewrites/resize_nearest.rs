//! `Gather` at `floor((i + 0.5) * m / n)` for all `i < n`, where `n` is a multiple of the unknown
//! size `m` → `Resize`, which repeats each element. This is `jax.image.resize` with nearest
//! neighbours. Guards that keep these indices in range have no effect.
//!
//! In 32-bit floats, these indices are exact up to four million elements along the axis.

use onnx::{Node, ValueId, fold};
use tensor::{DType, Dim};

use super::resize_pixels::resize;
use crate::rewrite::either_order;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("resize_nearest", &["Gather"], try_at);

/// The maximum number of repetitions of an element.
const MOST: i64 = 64;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let mut x = m.operand(0)?;
    let mut counts = vec![1; m.ty(x).rank()];
    let (axis, count) = repeats(m, m.root()).ok_or("other places are looked up")?;
    counts[axis] = count;
    // One `Resize` repeats along all axes.
    if let Some(before) = m.producer(x, &["Resize"]).filter(|_| m.is_used_once(x))
        && let Some((source, scales)) = repeated(m, before)
    {
        counts.iter_mut().zip(scales).for_each(|(count, scale)| *count *= scale);
        x = source;
    }
    Ok(vec![resize(m, x, &counts)?])
}

/// Returns the operand that a `Resize` repeats, and the number of repetitions along each axis.
fn repeated(m: &Match<'_>, node: &Node) -> Option<(ValueId, Vec<i64>)> {
    let is = |name, value| node.string(name, "") == value;
    let repeats = is("mode", "nearest")
        && is("coordinate_transformation_mode", "asymmetric")
        && is("nearest_mode", "floor");
    let scales = m.constant(node.input(2)?).filter(|_| repeats)?.to_f64s()?;
    let whole = |scale: f64| (1..=MOST).find(|count| *count as f64 == scale);
    Some((node.input(0)?, scales.into_iter().map(whole).collect::<Option<_>>()?))
}

/// Returns the axis along which a `Gather` repeats each element, and the number of repetitions.
fn repeats(m: &Match<'_>, node: &Node) -> Option<(usize, i64)> {
    let shape = &m.ty(node.input(0)?).shape;
    let axis = fold::axis(node.int("axis", 0), shape.len()).ok()?;
    let size = shape[axis].clone();
    let places = node.input(1).filter(|places| m.ty(*places).rank() == 1)?;
    let all = m.ty(places).shape[0].clone();
    let times = |count: &i64| size.as_known().is_none() && size.clone() * Dim::Known(*count) == all;
    let count = (2..=MOST).find(times)?;
    let ratio = m.producer(unguarded(m, places, &size)?, &["Div"])?;
    let scaled = m.producer(ratio.input(0)?, &["Mul"])?;
    let holds = |value: ValueId, dim: &Dim| m.facts().size(value).as_ref() == Some(dim);
    let (center, _) = either_order(scaled, |_, number| holds(number, &size))?;
    let counted = plus(m, center, 0.5)?;
    let counted = plus(m, counted, 0.0).unwrap_or(counted);
    let counts = m.facts().is_iota(counted, &all);
    let is_float = m.ty(counted).dtype == DType::F32;
    (counts && is_float && holds(ratio.input(1)?, &all)).then_some((axis, count))
}

/// Returns `x` if `sum` is `x + number`.
fn plus(m: &Match<'_>, sum: ValueId, number: f64) -> Option<ValueId> {
    let add = m.producer(sum, &["Add"])?;
    either_order(add, |_, constant| m.number(constant) == Some(number)).map(|(x, _)| x)
}

/// Returns indices into an axis of the given size without the guards that would keep them in range.
fn unguarded(m: &Match<'_>, mut value: ValueId, size: &Dim) -> Option<ValueId> {
    let zero = Dim::Known(0);
    let last = size.clone() - Dim::Known(1);
    for _ in 0..16 {
        let Some(id) = m.graph().producer(value) else { return Some(value) };
        let node = m.graph().node(id);
        let (a, b) = (node.input(0)?, node.input(1));
        value = match node.op.name {
            "Cast" if matches!(m.ty(node.outputs[0]).dtype, DType::I32 | DType::I64) => a,
            "Floor" => a,
            _ if node.is_reshape() => a,
            "Clip" => {
                let (low, high) = (m.facts().interval(b?), m.facts().interval(node.input(2)?));
                (low.is_at_most(&zero) && high.is_at_least(&last)).then_some(a)?
            }
            "Max" => m.facts().interval(b?).is_at_most(&zero).then_some(a)?,
            "Min" => m.facts().interval(b?).is_at_least(&last).then_some(a)?,
            _ => return Some(value),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, rewritten, stays};

    fn text(places: &str, count: &str, half: &str) -> String {
        format!(
            "g (float[B,H,3] x) => (float[B,\"{count}*H\",3] y) {{
                front = Constant <value_ints = [0]> () k = Constant <value_ints = [{count}]> ()
                zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
                half = Constant <value_float = {half}> () none = Constant <value_float = 0.0> ()
                minus = Constant <value = int32 {{-1}}> ()
                h = Shape <start = 1, end = 2> (x) n = Mul (h, k)
                hs = Squeeze (h, front) ns = Squeeze (n, front)
                hf = Cast <to = 1> (hs) nf = Cast <to = 1> (ns) hi = Cast <to = 6> (hs)
                r = Range (zero, ns, one) c = Cast <to = 1> (r) d = Add (none, c) e = Add (d, half)
                f = Mul (e, hf) g = Div (f, nf) j = Cast <to = 6> (g)
                neg = Neg (hi) last = Add (hi, minus) q = Max (j, neg) p = Min (q, last)
                y = Gather <axis = 1> (x, {places}) }}"
        )
    }

    #[test]
    fn pixels_of_images_of_symbolic_size_are_repeated() {
        rewrites_to(
            &REWRITE,
            &text("p", "2", "0.5"),
            "g (float[B,H,3] x) => (float[B,\"2*H\",3] y) {
                scales = Constant <value_floats = [1.0, 2.0, 1.0]> ()
                y = Resize <mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\"> (x, , scales)
            }",
        );
        let reshaped = "u = Unsqueeze (q, front) v = Squeeze (u, front) p = Min (v, last)";
        let resized =
            rewritten(&REWRITE, &text("p", "2", "0.5").replace("p = Min (q, last)", reshaped));
        assert!(resized.contains("Resize"), "{resized}");
        let wrapped = text("p", "2", "0.5")
            .replace("j = Cast <to = 6> (g)", "b = Cast <to = 3> (g) j = Cast <to = 6> (b)");
        stays(&REWRITE, &wrapped);
        stays(&REWRITE, &text("p", "2", "0.25"));
        stays(&REWRITE, &text("p", "1", "0.5").replace("\"1*H\"", "H"));
        stays(&REWRITE, &text("r", "2", "0.5"));
    }

    #[test]
    fn factors_and_addends_are_in_either_order() {
        let plain = text("p", "2", "0.5");
        for (from, to) in [
            ("Mul (e, hf)", "Mul (hf, e)"),
            ("Add (none, c)", "Add (c, none)"),
            ("Add (d, half)", "Add (half, d)"),
        ] {
            let after = rewritten(&REWRITE, &plain.replace(from, to));
            assert!(after.contains("Resize"), "{after}");
        }
        for (from, to) in [
            ("Mul (e, hf)", "Mul (e, nf)"),
            ("Div (f, nf)", "Div (f, hf)"),
            ("Range (zero, ns, one)", "Mul (t, k)"),
            ("Cast <to = 1> (r)", "Neg (r)"),
        ] {
            let text =
                plain.replace(from, to).replace("r = Mul", "t = Range (zero, ns, one) r = Mul");
            let text = text.replace("c = Neg (r)", "c2 = Neg (r) c = Cast <to = 1> (c2)");
            stays(&REWRITE, &text);
        }
    }

    #[test]
    fn one_resize_repeats_along_several_axes() {
        let text = |mode: &str, nearest: &str| {
            text("p", "2", "0.5").replace("y = Gather <axis = 1> (x,", &format!(
                "scales = Constant <value_floats = [1.0, 1.0, 3.0]> ()
                 z = Resize <mode = \"nearest\", coordinate_transformation_mode = \"{mode}\", nearest_mode = \"{nearest}\"> (x, , scales)
                 y = Gather <axis = 1> (z,"
            )).replace("\"2*H\",3]", "\"2*H\",9]")
        };
        let count =
            |mode, nearest| rewritten(&REWRITE, &text(mode, nearest)).matches("= Resize").count();
        assert_eq!(count("asymmetric", "floor"), 1);
        assert_eq!(count("asymmetric", "ceil"), 2);
        assert_eq!(count("half_pixel", "floor"), 2);
    }
}
