//! Products of each element with the one at distance 1, then 2, then 4, … before or after it →
//! `CumProd`.

use onnx::{Attrs, Node, Part, ValueId, attrs};
use tensor::{DType, Tensor};

use crate::recognize::check_unmeasured;
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "CumProd", roots: Roots::Named(&["Mul"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    if !m.forms().of("CumProd").is_native() {
        return Err("it was not requested".into());
    }
    let last = ShiftedProduct::of(m, m.root()).ok_or("nothing is shifted")?;
    let extent = m.ty(last.x).shape[last.axis].as_known().ok_or("the extent is not known")?;
    if last.distance < extent - last.distance {
        return Err("not all elements are multiplied".into());
    }
    let mut first = last;
    while first.distance > 1 {
        let before = m.producer(first.x, &["Mul"]).and_then(|node| ShiftedProduct::of(m, node));
        let before = before.ok_or("the distances are others")?;
        let halved = ShiftedProduct { x: before.x, distance: first.distance / 2, ..first };
        if before != halved || first.distance % 2 != 0 {
            return Err("the distances are others".into());
        }
        first = before;
    }
    check_unmeasured(m.forms(), "CumProd", m.ty(first.x).dtype)?;
    let axis = Tensor::int_scalar(DType::I64, last.axis as i128).ok_or("no such axis")?;
    let axis = m.tensor(axis);
    let attrs = if last.reverse {
        attrs! { reverse: 1 }
    } else {
        Attrs::new()
    };
    Ok(vec![m.op("CumProd", &[first.x, axis], attrs)?])
}

/// A product of each element with the one at a distance along an axis, or with one at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShiftedProduct {
    x: ValueId,
    axis: usize,
    distance: i64,
    /// `true` if the other element comes after it.
    reverse: bool,
}

impl ShiftedProduct {
    fn of(m: &Match<'_>, product: &Node) -> Option<Self> {
        let (a, b) = (product.input(0)?, product.input(1)?);
        Self::shifted(m, a, b).or_else(|| Self::shifted(m, b, a))
    }

    /// Returns the product of `x` and `other`, if that is `x` moved along an axis.
    fn shifted(m: &Match<'_>, x: ValueId, other: ValueId) -> Option<Self> {
        let part = Part::of(m.graph(), m.producer(other, &["Slice"])?, other)?;
        let pad = m.producer(part.source, &["Pad"]).filter(|pad| pad.input(0) == Some(x))?;
        let is_constant = pad.string("mode", "constant") == "constant";
        let is_one = m.number(pad.input(2)?) == Some(1.0);
        let (pads, axis) = (m.ints(pad.input(1)?)?, part.axis);
        let sides = pads.len() / 2;
        let others = (0..pads.len()).filter(|i| i % sides != axis);
        let is_along_axis = others.into_iter().all(|i| pads.get(i) == Some(&0));
        if !is_constant || !is_one || !is_along_axis || pad.input(3).is_some() || part.step != 1 {
            return None;
        }
        let (low, high) = (*pads.get(axis)?, *pads.get(axis + sides)?);
        let (distance, reverse) = match (low, high, part.start) {
            (1.., 0, 0) => (low, false),
            (0, 1.., start) if start == high => (high, true),
            _ => return None,
        };
        (m.ty(x) == m.ty(other)).then_some(Self { x, axis, distance, reverse })
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to_natively, stays, stays_natively};

    /// Returns the products at the distances 1 and `second`, before each element.
    fn steps(second: i64) -> String {
        format!(
            "g (float[2,3] x) => (float[2,3] y) {{
                one = Constant <value_float = 1.0> ()
                zero = Constant <value_ints = [0]> ()
                axis = Constant <value_ints = [1]> ()
                near = Constant <value_ints = [0, 1, 0, 0]> ()
                a = Pad (x, near, one)
                last = Constant <value_ints = [-1]> ()
                b = Slice (a, zero, last, axis)
                c = Mul (x, b)
                far = Constant <value_ints = [0, {second}, 0, 0]> ()
                d = Pad (c, far, one)
                end = Constant <value_ints = [-{second}]> ()
                e = Slice (d, zero, end, axis)
                y = Mul (c, e)
            }}"
        )
    }

    #[test]
    fn products_before_each_element_are_one_operator() {
        let one = "g (float[2,3] x) => (float[2,3] y) {
            axis = Constant <value_int = 1> () y = CumProd (x, axis) }";
        rewrites_to_natively(&REWRITE, &steps(2), one);
        let after = steps(2)
            .replace("[0, 1, 0, 0]", "[0, 0, 0, 1]")
            .replace("[0, 2, 0, 0]", "[0, 0, 0, 2]")
            .replace("zero, last", "axis, many")
            .replace("zero, end", "two, many")
            .replace(
                "a =",
                "many = Constant <value_ints = [9999]> () two = Constant <value_ints = [2]> () a =",
            );
        let reversed = one.replace("CumProd", "CumProd <reverse = 1>");
        rewrites_to_natively(&REWRITE, &after, &reversed);
    }

    #[test]
    fn other_products_are_unchanged() {
        stays(&REWRITE, &steps(2));
        stays_natively(&REWRITE, &steps(1));
        stays_natively(&REWRITE, &steps(2).replace("value_float = 1.0", "value_float = 2.0"));
        stays_natively(&REWRITE, &steps(2).replace("float[2,3]", "float[2,5]"));
    }
}
