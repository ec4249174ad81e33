//! The order of 64-bit integers, for runtimes that compare only narrower or only signed ones.

use onnx::{Attrs, Builder, Node, Result, ValueId, attrs};
use tensor::DType;

use super::{Results, fresh, operand};

/// Selects `x` where it is greater or less (`op`) than `y`, and `y` elsewhere.
fn pick(b: &mut Builder<'_>, op: &'static str, x: ValueId, y: ValueId) -> Result<ValueId> {
    let condition = b.op(op, &[x, y], Attrs::new())?;
    b.op("Where", &[condition, x, y], Attrs::new())
}

pub(super) fn max(b: &mut Builder<'_>, node: &Node) -> Results {
    fold(b, node, "Greater")
}

pub(super) fn min(b: &mut Builder<'_>, node: &Node) -> Results {
    fold(b, node, "Less")
}

fn fold(b: &mut Builder<'_>, node: &Node, op: &'static str) -> Results {
    let first = operand(node, 0)?;
    let mut result = first;
    for value in node.inputs.iter().skip(1).flatten() {
        result = pick(b, op, result, *value)?;
    }
    Ok(vec![fresh(b, first, result)?])
}

pub(super) fn clip(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let mut result = x;
    for (index, op) in [(1, "Greater"), (2, "Less")] {
        if let Some(bound) = node.input(index) {
            result = pick(b, op, result, bound)?;
        }
    }
    Ok(vec![fresh(b, x, result)?])
}

/// Writes `Clip` as `Max` and `Min`.
pub(in super::super) fn limits(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let mut result = x;
    for (index, op) in [(1, "Max"), (2, "Min")] {
        if let Some(bound) = node.input(index) {
            result = b.op(op, &[result, bound], Attrs::new())?;
        }
    }
    Ok(vec![fresh(b, x, result)?])
}

pub(super) fn relu(b: &mut Builder<'_>, node: &Node) -> Results {
    let zero = b.int(DType::I64, 0)?;
    Ok(vec![pick(b, "Greater", operand(node, 0)?, zero)?])
}

pub(super) fn sign(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let zero = b.int(DType::I64, 0)?;
    let above = b.op("Greater", &[x, zero], Attrs::new())?;
    let below = b.op("Less", &[x, zero], Attrs::new())?;
    let above = b.cast(above, DType::I64)?;
    let below = b.cast(below, DType::I64)?;
    Ok(vec![b.op("Sub", &[above, below], Attrs::new())?])
}

/// Compares signed instead of unsigned integers. Flipping the highest bit converts between the two
/// orders.
pub(super) fn through_signed(b: &mut Builder<'_>, node: &Node) -> Results {
    let flipped = flip(b, operand(node, 0)?, DType::U64, 1 << 63)?;
    let signed = b.cast(flipped, DType::I64)?;
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(signed);
    let at = std::panic::Location::caller();
    let results = b.emit(node.op, inputs, node.attrs.clone(), node.outputs.len(), at)?;
    let mut back = Vec::with_capacity(results.len());
    for (old, new) in node.outputs.iter().zip(results) {
        back.push(if b.dtype(*old) == DType::U64 {
            let unsigned = b.cast(new, DType::U64)?;
            flip(b, unsigned, DType::U64, 1 << 63)?
        } else {
            new
        });
    }
    Ok(back)
}

/// Inverts the bits of `mask` in `x`.
fn flip(b: &mut Builder<'_>, x: ValueId, dtype: DType, mask: i128) -> Result<ValueId> {
    let mask = b.int(dtype, mask)?;
    b.op("BitwiseXor", &[x, mask], Attrs::new())
}

/// Computes the extremum of the upper halves, and the extremum of the lower halves that go with it.
///
/// Both are 32-bit integers. The lower one is unsigned and has its highest bit flipped.
pub(super) fn reduce_by_halves(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let last = if node.is("ReduceMax") { i32::MIN } else { i32::MAX };
    let bits = b.cast(x, DType::U64)?;
    let width = b.int(DType::U64, 32)?;
    let upper = b.op("BitShift", &[bits, width], attrs! { direction: "RIGHT" })?;
    let upper = b.cast(upper, DType::I32)?;
    let lower = b.cast(x, DType::I32)?;
    let lower = flip(b, lower, DType::I32, i128::from(i32::MIN))?;

    let best = reduce(b, node, upper, true)?;
    let beside = b.op("Equal", &[upper, best], Attrs::new())?;
    let last = b.int(DType::I32, i128::from(last))?;
    let lower = b.op("Where", &[beside, lower, last], Attrs::new())?;
    let upper = reduce(b, node, upper, false)?;
    let lower = reduce(b, node, lower, false)?;

    let lower = flip(b, lower, DType::I32, i128::from(i32::MIN))?;
    let lower = b.cast(lower, DType::U32)?;
    let lower = b.cast(lower, DType::I64)?;
    let upper = b.cast(upper, DType::I64)?;
    let factor = b.int(DType::I64, 1 << 32)?;
    let upper = b.op("Mul", &[upper, factor], Attrs::new())?;
    Ok(vec![b.op("Add", &[upper, lower], Attrs::new())?])
}

/// Emits the node's reduction of another operand. If `keep` is set, the reduced axes are kept.
fn reduce(b: &mut Builder<'_>, node: &Node, x: ValueId, keep: bool) -> Result<ValueId> {
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(x);
    let mut attrs = node.attrs.clone();
    if keep {
        attrs.retain(|(name, _)| *name != "keepdims");
        attrs.extend(attrs! { keepdims: true });
    }
    b.op_optional(node.op.name, &inputs, attrs)
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::assert_integers;
    use onnx::attrs;
    use tensor::DType::{I64, U64};

    const HARD: [i128; 8] = [
        0,
        3_000_000_000,
        -5,
        4_294_967_295,
        -3_000_000_000,
        1 << 40,
        i64::MIN as i128,
        i64::MAX as i128,
    ];

    #[test]
    fn reductions_are_exact() {
        for n in 1..=HARD.len() {
            for part in HARD.windows(n) {
                let (most, least) = (*part.iter().max().unwrap(), *part.iter().min().unwrap());
                assert_integers("ReduceMax", I64, &[part], attrs! {}, &[most]);
                assert_integers("ReduceMin", I64, &[part], attrs! {}, &[least]);
                let unsigned: Vec<i128> = part.iter().map(|v| v.rem_euclid(1 << 64)).collect();
                let (most, least) =
                    (unsigned.iter().max().unwrap(), unsigned.iter().min().unwrap());
                assert_integers("ReduceMax", U64, &[&unsigned], attrs! {}, &[*most]);
                assert_integers("ReduceMin", U64, &[&unsigned], attrs! {}, &[*least]);
            }
        }
    }

    #[test]
    fn comparisons_are_exact() {
        let other: Vec<i128> = HARD.iter().rev().copied().collect();
        let both = |f: fn(i128, i128) -> i128| -> Vec<i128> {
            HARD.iter().zip(&other).map(|(a, b)| f(*a, *b)).collect()
        };
        assert_integers("Max", I64, &[&HARD, &other], attrs! {}, &both(i128::max));
        assert_integers("Min", I64, &[&HARD, &other], attrs! {}, &both(i128::min));
        let sign: Vec<i128> = HARD.iter().map(|v| v.signum()).collect();
        assert_integers("Sign", I64, &[&HARD], attrs! {}, &sign);
        let relu: Vec<i128> = HARD.iter().map(|v| *v.max(&0)).collect();
        assert_integers("Relu", I64, &[&HARD], attrs! {}, &relu);
        let clipped: Vec<i128> = HARD.iter().map(|v| *v.clamp(&-4, &3_000_000_001)).collect();
        assert_integers("Clip", I64, &[&HARD, &[-4], &[3_000_000_001]], attrs! {}, &clipped);
    }
}
