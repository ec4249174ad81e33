//! Bitwise operators as arithmetic on single bits, which get their own axis.

use onnx::formula::{Num, formulas};
use onnx::{Attrs, Builder, Node, Result, ValueId, attrs};
use tensor::{DType, Tensor};

use super::{Results, formula, operand};

/// An operator on bits that are zero or one, in double precision.
type OfBits = for<'f> fn(Num<'f>, Num<'f>) -> Num<'f>;

pub(super) fn and(b: &mut Builder<'_>, node: &Node) -> Results {
    if let Some((x, mask)) = with_constant(b, node)?
        && mask.checked_add(1).is_some_and(|next| mask > 0 && next & mask == 0)
        && let Ok(next) = b.int(b.dtype(x), mask + 1)
    {
        // The low bits are the remainder, which has the sign of the divisor.
        return Ok(vec![b.op("Mod", &[x, next], Attrs::new())?]);
    }
    by_bits(b, node, |x, y| x * y)
}

pub(super) fn or(b: &mut Builder<'_>, node: &Node) -> Results {
    by_bits(b, node, |x, y| x.max(y))
}

pub(super) fn xor(b: &mut Builder<'_>, node: &Node) -> Results {
    let highest = |(low, high): (i128, i128)| if low < 0 { low } else { high / 2 + 1 };
    if let Some((x, mask)) = with_constant(b, node)?
        && b.dtype(x).int_range().map(highest) == Some(mask)
    {
        // Only the highest bit changes, because the carry is lost.
        let mask = b.int(b.dtype(x), mask)?;
        return Ok(vec![b.op("Add", &[x, mask], Attrs::new())?]);
    }
    by_bits(b, node, |x, y| (x - y).abs())
}

pub(super) fn not(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| {
        // All bits set.
        let ones = x.dtype().int_range().map_or(-1, |(low, high)| if low < 0 { -1 } else { high });
        x.integer(ones) - x
    })
}

/// Returns the operand that is not a constant, and the number that all elements of the other have.
fn with_constant(b: &Builder<'_>, node: &Node) -> Result<Option<(ValueId, i128)>> {
    let (x, y) = (operand(node, 0)?, operand(node, 1)?);
    let number = |value: ValueId| {
        let constant = b.graph().constant(value).filter(|tensor| tensor.len() == 1);
        constant.and_then(Tensor::to_ints).and_then(|all| all.first().copied())
    };
    let broadcasts = |x: ValueId, mask: ValueId| b.rank(mask) <= b.rank(x);
    Ok(match (number(x), number(y)) {
        (_, Some(mask)) if broadcasts(x, y) => Some((x, mask)),
        (Some(mask), _) if broadcasts(y, x) => Some((y, mask)),
        _ => None,
    })
}

fn by_bits(b: &mut Builder<'_>, node: &Node, of_bits: OfBits) -> Results {
    let dtype = b.dtype(node.outputs[0]);
    // ONNX has no shift of 16-bit integers.
    let word = if dtype.bits() <= 32 { DType::U32 } else { DType::U64 };
    let count = i64::from(dtype.bits());
    let places: Vec<i64> = (0..count).collect();
    let places = b.i64s(&places);
    let places = b.cast(places, word)?;
    let mut bits = Vec::new();
    for index in 0..2 {
        let x = operand(node, index)?;
        let x = b.cast(x, dtype.unsigned())?;
        let x = b.cast(x, word)?;
        let x = b.unsqueeze(x, &[-1])?;
        let x = b.op("BitShift", &[x, places], attrs! { direction: "RIGHT" })?;
        let two = b.int(word, 2)?;
        let bit = b.op("Mod", &[x, two], Attrs::new())?;
        bits.push(b.cast(bit, DType::F64)?);
    }
    let [found] = formulas(b, [bits[0], bits[1]], |[x, y]| [of_bits(x, y)])?;
    // Sums of 32 bits are exact in double precision. Narrow integers are also split into halves:
    // runtimes may merge two consecutive casts, and a cast from double precision does not wrap
    // around.
    let halves = b.op_many("Split", &[found], attrs! { axis: -1, num_outputs: 2 }, 2)?;
    let powers: Vec<i64> = (0..count / 2).map(|place| 1 << place).collect();
    let powers = b.i64s(&powers);
    let powers = b.cast(powers, DType::F64)?;
    let mut sum = |bits: ValueId| {
        let (terms, axes) = (b.op("Mul", &[bits, powers], Attrs::new())?, b.i64s(&[-1]));
        let sum = b.op("ReduceSum", &[terms, axes], attrs! { keepdims: false })?;
        b.cast(sum, word)
    };
    let (low, high) = (sum(halves[0])?, sum(halves[1])?);
    let shift = b.int(word, i128::from(count / 2))?;
    let high = b.op("BitShift", &[high, shift], attrs! { direction: "LEFT" })?;
    let total = b.op("Add", &[low, high], Attrs::new())?;
    let total = b.cast(total, dtype.unsigned())?;
    Ok(vec![b.cast(total, dtype)?])
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::at_opset;

    /// Returns the equivalent of an operator on words of 32 bits before opset 18.
    fn spelled(dtype: &str, mask: &str, call: &str) -> String {
        let text = format!(
            "g ({dtype}[2] x, {dtype} z) => ({dtype}[2] y) {{ c = Constant <value = {dtype}{mask}> () y = {call} }}"
        );
        at_opset(&text, 17)
    }

    #[test]
    fn low_bits_are_a_remainder() {
        for call in ["BitwiseAnd (x, c)", "BitwiseAnd (c, x)"] {
            for mask in [" {7}", "[1] {7}"] {
                let found = spelled("uint32", mask, call);
                assert!(found.contains("Mod (x, ") && found.contains("{8}"), "{found}");
                assert!(!found.contains("Split"), "{found}");
            }
        }
        // Masks of other bits, of negative numbers, or that differ between elements.
        for (dtype, mask) in [("uint32", " {6}"), ("int32", " {-1}"), ("uint32", "[2] {7, 7}")] {
            assert!(spelled(dtype, mask, "BitwiseAnd (x, c)").contains("Split"), "{dtype}{mask}");
        }
        // The mask gives the result its shape.
        let found = spelled("uint32", "[2] {7, 7}", "BitwiseAnd (z, c)");
        assert!(found.contains("Split"), "{found}");
        let raised = "g (uint32 z) => (uint32[1] y) {
            c = Constant <value = uint32[1] {7}> () y = BitwiseAnd (z, c) }";
        assert!(at_opset(raised, 17).contains("Split"));
    }

    #[test]
    fn the_highest_bit_changes_by_an_addition() {
        for (dtype, highest, other) in [
            ("uint32", " {2147483648}", " {1073741824}"),
            ("int32", " {-2147483648}", " {2147483647}"),
        ] {
            let found = spelled(dtype, highest, "BitwiseXor (x, c)");
            assert!(found.contains("Add (x, ") && !found.contains("Split"), "{found}");
            assert!(spelled(dtype, other, "BitwiseXor (x, c)").contains("Split"), "{dtype}{other}");
        }
    }

    #[test]
    fn other_operators_work_on_single_bits() {
        for (call, op) in [
            ("BitwiseAnd (x, x)", "Mul"),
            ("BitwiseOr (x, c)", "Max"),
            ("BitwiseXor (x, x)", "Abs"),
        ] {
            let found = spelled("uint32", " {3}", call);
            assert!(found.contains("Split") && found.contains(op), "{found}");
        }
        assert!(spelled("int32", " {3}", "BitwiseNot (x)").contains("Sub ("));
    }
}
