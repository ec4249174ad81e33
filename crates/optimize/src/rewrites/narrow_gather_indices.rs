//! `Squeeze(Gather(x, i))` → `Gather(x, Squeeze(i))`, if the squeezed axes come from the indices. A
//! single index becomes a scalar. `Gather(x, Cast(i))` → `Gather(x, i)`.

use onnx::facts::Interval;
use onnx::{Assumption, ValueId, fold};
use tensor::{DType, Dim};

use crate::rewrite::operands;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of(
    "narrow_gather_indices",
    &["Gather", "GatherElements", "ScatterElements", "Squeeze"],
    try_at,
);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    if m.root().is("Squeeze") { single(m) } else { narrow(m) }
}

fn narrow(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let cast = m.producer(m.operand(1)?, &["Cast"]).ok_or("the index is not cast")?;
    let index = cast.input(0).ok_or("nothing is cast")?;
    Skip::when(cast.block() != m.root().block(), "it is cast elsewhere")?;
    let Interval { low, high } = m.facts().interval(index);
    let fits = |bound: Option<Dim>| match bound {
        Some(Dim::Known(n)) => i32::try_from(n).is_ok(),
        bound => bound.is_some(),
    };
    // A 64-bit index may wrap around to another one in 32 bits.
    match m.ty(index).dtype {
        DType::I32 => {}
        DType::I64 if fits(low) && fits(high) => {}
        // Both types hold every index in range.
        DType::I64 if m.graph().assumptions.contains(Assumption::IndicesInRange) => {}
        _ => return Err("the index may be another one without the cast".into()),
    }
    Ok(vec![m.like_with(&m.root().clone(), 1, index)?])
}

fn single(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let axes = m.ints(m.operand(1)?).ok_or("the axes are not known")?;
    let gather = m.producer(m.operand(0)?, &["Gather"]).ok_or("nothing is gathered")?.clone();
    let [data, index] = operands(&gather)?;
    let axis = fold::axis(gather.int("axis", 0), m.ty(data).rank())?;
    let result = m.ty(gather.outputs[0]).rank();
    let of_index = |along: &i64| {
        let along = fold::axis(*along, result).ok()?.checked_sub(axis)?;
        (along < m.ty(index).rank()).then_some(along as i64)
    };
    let axes: Option<Vec<i64>> = axes.iter().map(of_index).collect();
    let axes = axes.ok_or("the axis is not one of the indices")?;
    Skip::when(!m.is_used_once(gather.outputs[0]), "the axis of size one is used elsewhere")?;
    let scalar = m.producer(index, &["Unsqueeze", "Reshape"]).and_then(|node| node.input(0));
    let is_scalar = |place: &ValueId| m.ty(*place).rank() == 0 && axes.len() == m.ty(index).rank();
    let place = match (scalar.filter(is_scalar), m.constant(index)) {
        (Some(place), _) => place,
        (None, Some(tensor)) => {
            let kept = (0_i64..).zip(tensor.shape()).filter(|(along, _)| !axes.contains(along));
            let shape: Vec<usize> = kept.map(|(_, size)| *size).collect();
            let place = tensor.clone().reshaped(&shape);
            m.tensor(place.map_err(|_| "the axes are not of size one")?)
        }
        (None, None) => {
            let axes = m.i64s(&axes);
            m.op("Squeeze", &[index, axes], onnx::attrs! {})?
        }
    };
    let found = m.op("Gather", &[data, place], gather.attrs.clone())?;
    Ok(vec![found])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{operators_assuming, rewrites_to, stays};

    #[test]
    fn a_single_index_becomes_a_scalar() {
        rewrites_to(
            &REWRITE,
            "g (float[2,T,8] x, int32 i) => (float[2,8] y) {
                wide = Cast <to = 7> (i)
                first = Constant <value_ints = [0]> ()
                u = Unsqueeze (wide, first)
                g = Gather <axis = 1> (x, u)
                one = Constant <value_ints = [1]> ()
                y = Squeeze (g, one)
            }",
            "g (float[2,T,8] x, int32 i) => (float[2,8] y) { y = Gather <axis = 1> (x, i) }",
        );
        rewrites_to(
            &REWRITE,
            "g (float[2,T,8] x) => (float[2,8] y) {
                last = Constant <value_ints = [-1]> ()
                g = Gather <axis = 1> (x, last)
                one = Constant <value_ints = [1]> ()
                y = Squeeze (g, one)
            }",
            "g (float[2,T,8] x) => (float[2,8] y) {
                last = Constant <value_int = -1> ()
                y = Gather <axis = 1> (x, last)
            }",
        );
    }

    #[test]
    fn indices_in_range_are_not_cast() {
        let text = "g (float[5,8] x, int64[B] i) => (float[B,8] y) {
            narrow = Cast <to = 6> (i)
            y = Gather (x, narrow)
        }";
        stays(&REWRITE, text);
        assert_eq!(operators_assuming(Assumption::IndicesInRange, &REWRITE, text), "Gather");
    }

    #[test]
    fn the_indices_lose_their_axis() {
        rewrites_to(
            &REWRITE,
            "g (float[5,8] x, int32[B,1] i) => (float[B,8] y) {
                g = Gather (x, i)
                one = Constant <value_ints = [1]> ()
                y = Squeeze (g, one)
            }",
            "g (float[5,8] x, int32[B,1] i) => (float[B,8] y) {
                one = Constant <value_ints = [1]> ()
                v1 = Squeeze (i, one)
                y = Gather (x, v1)
            }",
        );
    }

    #[test]
    fn other_axes_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[1,T,8] x, int64[1] i) => (float[1,8] y) {
                g = Gather <axis = 1> (x, i)
                first = Constant <value_ints = [0]> ()
                y = Squeeze (g, first)
            }",
        );
    }

    #[test]
    fn indices_within_both_bounds_are_not_cast() {
        let text = |index: &str| {
            format!(
                "g (float[5,8] x, int64[B] j) => (float[B,8] y) {{
                    low = Constant <value_int = 0> () high = Constant <value_int = 4> ()
                    i = {index} narrow = Cast <to = 6> (i) y = Gather (x, narrow) }}"
            )
        };
        rewrites_to(
            &REWRITE,
            &text("Clip (j, low, high)"),
            "g (float[5,8] x, int64[B] j) => (float[B,8] y) {
                low = Constant <value_int = 0> () high = Constant <value_int = 4> ()
                i = Clip (j, low, high) y = Gather (x, i) }",
        );
        stays(&REWRITE, &text("Max (j, low)"));
        stays(&REWRITE, &text("Min (j, high)"));
    }
}
