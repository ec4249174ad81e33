//! Running products → `CumProd`: the products of one element after the other, of blocks and the
//! products before them, and those of a padded axis.

use onnx::{Attrs, Part, ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use super::padding::Padding;
use crate::recognize::check_unmeasured;
use crate::rewrite::either_order;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::of("CumProd", &["Concat", "Reshape", "Slice"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    Skip::when(!m.forms().of("CumProd").is_native(), "it was not requested")?;
    let found = match m.root().op.name {
        "Concat" => of_elements(m),
        "Reshape" => of_blocks(m),
        _ => of_padded(m),
    };
    let Products { x, axis, reverse } = found.ok_or("these are no running products")?;
    check_unmeasured(m.forms(), "CumProd", m.ty(x).dtype)?;
    let axis = Tensor::int_scalar(DType::I64, axis as i128).ok_or("no such axis")?;
    let axis = m.tensor(axis);
    let attrs = if reverse {
        attrs! { reverse: 1 }
    } else {
        Attrs::new()
    };
    Ok(vec![m.op("CumProd", &[x, axis], attrs)?])
}

/// The running products of `x` along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Products {
    x: ValueId,
    axis: usize,
    /// `true` if the last element is the first factor.
    reverse: bool,
}

impl Products {
    /// Returns the operand of a `CumProd`.
    fn of(m: &Match<'_>, value: ValueId) -> Option<Self> {
        let node = m.producer(value, &["CumProd"])?;
        let [axis] = *m.ints(node.input(1)?)? else { return None };
        let found = Self {
            x: node.input(0)?,
            axis: usize::try_from(axis).ok()?,
            reverse: node.int("reverse", 0) == 1,
        };
        (node.int("exclusive", 0) == 0).then_some(found)
    }
}

/// Matches the products of one element after the other, concatenated.
fn of_elements(m: &Match<'_>) -> Option<Products> {
    let parts: Vec<ValueId> = m.root().inputs.iter().copied().collect::<Option<_>>()?;
    let (first, last) = (*parts.first()?, *parts.last()?);
    let forwards = chain(m, last, false).filter(|(_, products)| *products == parts);
    let (found, _) = forwards.or_else(|| {
        chain(m, first, true).filter(|(_, products)| products.iter().rev().eq(&parts))
    })?;
    (m.ty(m.result().ok()?) == m.ty(found.x)).then_some(found)
}

/// Follows the products of all elements of an axis from the last one back to the first factor.
/// Returns the products in the order in which they are computed.
fn chain(m: &Match<'_>, last: ValueId, reverse: bool) -> Option<(Products, Vec<ValueId>)> {
    let is_split = |factor, _| m.producer(factor, &["Split"]).is_some();
    let (factor, _) = either_order(m.producer(last, &["Mul"])?, is_split)?;
    let split = m.producer(factor, &["Split"])?;
    let x = split.input(0)?;
    let axis = Part::of(m.graph(), split, *split.outputs.first()?)?.axis;
    let mut factors = split.outputs.clone();
    if reverse {
        factors.reverse();
    }
    let (first, others) = factors.split_first()?;
    let is_element = |part: &ValueId| m.ty(*part).shape.get(axis) == Some(&Dim::Known(1));
    if !factors.iter().all(is_element) {
        return None;
    }
    let mut products = vec![last];
    let mut value = last;
    for &factor in others.iter().rev() {
        (value, _) = either_order(m.producer(value, &["Mul"])?, |_, last| last == factor)?;
        products.push(value);
    }
    products.reverse();
    (value == *first).then_some((Products { x, axis, reverse }, products))
}

/// Matches the products within blocks, multiplied by those of all blocks before.
fn of_blocks(m: &Match<'_>) -> Option<Products> {
    let product = m.producer(m.operand(0).ok()?, &["Mul"])?;
    let (a, b) = (product.input(0)?, product.input(1)?);
    let (within, before) =
        Products::of(m, a).map(|found| (found, b)).or_else(|| Some((Products::of(m, b)?, a)))?;
    let part = Part::of(m.graph(), m.producer(before, &["Slice"])?, before)?;
    let pad = Padded::of(m, part.source)?;
    let blocks = Products::of(m, pad.x)?;
    let reverse = within.reverse;
    let is_moved_by_one = match reverse {
        false => (pad.low, pad.high, part.start) == (1, 0, 0),
        true => (pad.low, pad.high, part.start) == (0, 1, 1),
    };
    let (last, _) = chain(m, blocks.x, reverse)?;
    let x = m.producer(within.x, &["Reshape"])?.input(0)?;
    let axis = blocks.axis;
    let (mut merged, rows) = (m.ty(x).shape.clone(), &m.ty(within.x).shape);
    merged.splice(axis..=axis, rows.get(axis..axis + 2)?.iter().cloned());
    let same = last == within
        && within.axis == axis + 1
        && blocks.reverse == reverse
        && (pad.axis, part.axis) == (axis, axis)
        && m.ty(before) == m.ty(pad.x)
        && merged == *rows
        && m.ty(m.result().ok()?) == m.ty(x);
    (is_moved_by_one && same).then_some(Products { x, axis, reverse })
}

/// Matches the products of an axis with ones behind its elements, which are cut off.
fn of_padded(m: &Match<'_>) -> Option<Products> {
    let result = m.result().ok()?;
    let part = Part::of(m.graph(), m.root(), result)?;
    let found = Products::of(m, part.source)?;
    let pad = Padded::of(m, found.x)?;
    let is_behind = match found.reverse {
        false => pad.low == 0 && part.start == 0,
        true => pad.high == 0 && part.start == pad.low,
    };
    let same = (pad.axis, part.axis) == (found.axis, found.axis) && m.ty(result) == m.ty(pad.x);
    (is_behind && same).then_some(Products { x: pad.x, ..found })
}

/// An array with ones before and after its elements along an axis.
struct Padded {
    x: ValueId,
    axis: usize,
    low: i64,
    high: i64,
}

impl Padded {
    fn of(m: &Match<'_>, value: ValueId) -> Option<Self> {
        let Padding { x, amounts, number } = Padding::of(m, value)?;
        let is_one = m.number(number?) == Some(1.0);
        let mut padded = amounts.into_iter().enumerate().filter(|(_, sides)| *sides != (0, 0));
        let (Some((axis, (low, high))), None) = (padded.next(), padded.next()) else { return None };
        (is_one && low >= 0 && high >= 0).then_some(Self { x, axis, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to_natively, rewritten_natively, stays, stays_natively};

    /// The products of three elements, in the order of `parts`.
    fn elements(products: &str, parts: &str) -> String {
        format!(
            "g (float[2,3] x) => (float[2,3] y) {{
                a, b, c = Split <axis = 1, num_outputs = 3> (x)
                {products}
                y = Concat <axis = 1> ({parts})
            }}"
        )
    }

    const FORWARDS: &str = "d = Mul (a, b) e = Mul (c, d)";
    const BACKWARDS: &str = "d = Mul (c, b) e = Mul (d, a)";

    fn products(attrs: &str) -> String {
        format!(
            "g (float[2,3] x) => (float[2,3] y) {{
                axis = Constant <value_int = 1> () y = CumProd {attrs} (x, axis) }}"
        )
    }

    #[test]
    fn products_of_one_element_after_the_other_are_one_operator() {
        rewrites_to_natively(&REWRITE, &elements(FORWARDS, "a, d, e"), &products(""));
        let reversed = products("<reverse = 1>");
        rewrites_to_natively(&REWRITE, &elements(BACKWARDS, "e, d, c"), &reversed);
    }

    #[test]
    fn other_products_are_unchanged() {
        stays(&REWRITE, &elements(FORWARDS, "a, d, e"));
        stays_natively(&REWRITE, &elements(FORWARDS, "a, e, d"));
        stays_natively(&REWRITE, &elements(FORWARDS, "b, d, e"));
        stays_natively(&REWRITE, &elements(BACKWARDS, "c, d, e"));
        stays_natively(&REWRITE, &elements("d = Mul (a, b) e = Mul (d, d)", "a, d, e"));
        stays_natively(&REWRITE, &elements("d = Mul (a, c) e = Mul (d, b)", "a, d, e"));
    }

    /// The products of seven elements in blocks of two. Those before a block are `end` of the ones
    /// behind `fill`.
    fn blocks(fill: &str, end: i64) -> String {
        format!(
            "g (float[7] x) => (float[7] y) {{
                one = Constant <value_float = {fill}> ()
                pads = Constant <value_ints = [0, 1]> ()
                p = Pad (x, pads, one)
                rows = Constant <value_ints = [4, 2]> ()
                r = Reshape (p, rows)
                a, b = Split <axis = 1, num_outputs = 2> (r)
                c = Mul (a, b)
                within = Concat <axis = 1> (a, c)
                near = Constant <value_int = 0> ()
                until = CumProd (c, near)
                shift = Constant <value_ints = [1, 0, 0, 0]> ()
                q = Pad (until, shift, one)
                start = Constant <value_ints = [{start}]> ()
                end = Constant <value_ints = [{end}]> ()
                zero = Constant <value_ints = [0]> ()
                before = Slice (q, start, end, zero)
                z = Mul (within, before)
                flat = Constant <value_ints = [8]> ()
                w = Reshape (z, flat)
                seven = Constant <value_ints = [7]> ()
                y = Slice (w, zero, seven, zero)
            }}",
            start = end - 4
        )
    }

    #[test]
    fn products_of_blocks_are_one_operator() {
        let one = "g (float[7] x) => (float[7] y) {
            axis = Constant <value_int = 0> () y = CumProd (x, axis) }";
        rewrites_to_natively(&REWRITE, &blocks("1.0", 4), one);
    }

    #[test]
    fn products_of_other_blocks_keep_their_order() {
        for text in [blocks("2.0", 4), blocks("1.0", 5)] {
            rewrites_to_natively(
                &REWRITE,
                &text,
                &text
                    .replace("Concat <axis = 1> (a, c)", "CumProd (r, far)")
                    .replace("rows =", "far = Constant <value_int = 1> () rows ="),
            );
        }
    }

    /// The blocks of [`blocks`] if the last element is the first factor.
    #[test]
    fn products_of_blocks_from_the_end_are_one_operator() {
        let text = blocks("1.0", 4)
            .replace(
                "pads = Constant <value_ints = [0, 1]>",
                "pads = Constant <value_ints = [1, 0]>",
            )
            .replace("(a, c)", "(c, b)")
            .replace("(c, near)", "<reverse = 1> (c, near)")
            .replace("[1, 0, 0, 0]", "[0, 0, 1, 0]")
            .replace("start = Constant <value_ints = [0]>", "start = Constant <value_ints = [1]>")
            .replace("end = Constant <value_ints = [4]>", "end = Constant <value_ints = [5]>")
            .replace(
                "seven = Constant <value_ints = [7]>",
                "first = Constant <value_ints = [1]> () eight = Constant <value_ints = [8]>",
            )
            .replace("Slice (w, zero, seven, zero)", "Slice (w, first, eight, zero)");
        let one = "g (float[7] x) => (float[7] y) {
            axis = Constant <value_int = 0> () y = CumProd <reverse = 1> (x, axis) }";
        rewrites_to_natively(&REWRITE, &text, one);
    }

    /// Only the products within blocks are recognised.
    #[test]
    fn blocks_that_do_not_fit_together_keep_their_order() {
        let plain = blocks("1.0", 4);
        let wide = plain.replace("(float[7] x)", "(float[7] x, float[4,2] o)");
        for text in [
            plain.replace("CumProd (c, near)", "CumProd <reverse = 1> (c, near)"),
            plain.replace("CumProd (c, near)", "CumProd <exclusive = 1> (c, near)"),
            wide.replace(
                "until = CumProd (c, near)",
                "e, f = Split <axis = 1, num_outputs = 2> (o) h = Mul (e, f) until = CumProd (h, near)",
            ),
        ] {
            let after = rewritten_natively(&REWRITE, &text);
            assert!(after.contains("Mul (within, before)"), "{after}");
        }
    }

    /// The products of a padded vector, cut off again.
    fn padded(axis: i64, attrs: &str, pads: &str, start: i64) -> String {
        format!(
            "g (float[7,7] x) => (float[7,7] y) {{
                axis = Constant <value_int = {axis}> () one = Constant <value_float = 1.0> ()
                pads = Constant <value_ints = [{pads}]> ()
                p = Pad (x, pads, one) c = CumProd {attrs} (p, axis)
                start = Constant <value_ints = [{start}]> () zero = Constant <value_ints = [0]> ()
                end = Constant <value_ints = [{}]> () y = Slice (c, start, end, zero) }}",
            start + 7
        )
    }

    #[test]
    fn ones_behind_the_last_factor_are_cut_off() {
        let one = |attrs: &str| {
            format!(
                "g (float[7,7] x) => (float[7,7] y) {{
                    axis = Constant <value_int = 0> () y = CumProd {attrs} (x, axis) }}"
            )
        };
        let reverse = "<reverse = 1>";
        rewrites_to_natively(&REWRITE, &padded(0, "", "0, 0, 2, 0", 0), &one(""));
        rewrites_to_natively(&REWRITE, &padded(0, reverse, "2, 0, 0, 0", 2), &one(reverse));
        for text in [
            // Other rows are cut off.
            padded(0, "", "0, 0, 2, 0", 1),
            padded(0, "", "2, 0, 0, 0", 2),
            padded(0, reverse, "2, 0, 0, 0", 1),
            padded(0, reverse, "0, 0, 2, 0", 0),
            // The products are those of columns.
            padded(1, "", "0, 0, 2, 0", 0),
            // Something else is padded.
            padded(0, "", "0, 0, 2, 0", 0).replace(
                "one = Constant <value_float = 1.0>",
                "one = Constant <value_float = 2.0>",
            ),
            padded(0, "", "0, 0, 2, 0", 0).replace("Pad (x", "Pad <mode = \"edge\"> (x"),
            padded(0, "<exclusive = 1>", "0, 0, 2, 0", 0),
        ] {
            stays_natively(&REWRITE, &text);
        }
    }
}
