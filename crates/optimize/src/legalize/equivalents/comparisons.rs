//! Comparisons that older opsets lack, or have only for integers.

use onnx::{Builder, Node};
use tensor::Tensor;

use super::{Lack, Results, formula, operand};

/// Negates the opposite order of integers. A NaN is in no order, so floats are also tested for equality.
pub(super) fn greater_or_equal(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x, y]| match x.dtype().is_integer() {
        true => !x.less(y),
        false => x.greater(y) | x.equals(y),
    })
}

/// Does the same for the other direction.
pub(super) fn less_or_equal(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x, y]| match x.dtype().is_integer() {
        true => !x.greater(y),
        false => x.less(y) | x.equals(y),
    })
}

/// Compares floats by their order. Two numbers are equal if neither is greater.
pub(super) fn equal(b: &mut Builder<'_>, node: &Node) -> Results {
    let number = |value| b.graph().constant(value).and_then(Tensor::splat);
    let may_be_nan =
        [operand(node, 0)?, operand(node, 1)?].map(|x| number(x).is_none_or(f64::is_nan));
    formula(b, node, |operands: [_; 2]| {
        let [x, y] = operands;
        let differ = x.less(y) | x.greater(y);
        let tested = operands.into_iter().zip(may_be_nan).filter(|(_, may_be_nan)| *may_be_nan);
        !tested.fold(differ, |differ, (x, _)| differ | x.is_nan())
    })
}

/// Compares with infinity.
pub(super) fn is_inf(b: &mut Builder<'_>, node: &Node) -> Results {
    let detects = |sign| node.int(sign, 1) != 0;
    match (detects("detect_negative"), detects("detect_positive")) {
        (true, true) => formula(b, node, |[x]| x.abs().equals(f64::INFINITY)),
        (false, true) => formula(b, node, |[x]| x.equals(f64::INFINITY)),
        (true, false) => formula(b, node, |[x]| x.equals(f64::NEG_INFINITY)),
        (false, false) => Err(Lack::Because("it detects nothing")),
    }
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::at_opset;

    fn compared(opset: i64, dtype: &str, call: &str) -> String {
        let text = format!(
            "g ({dtype}[2] x, {dtype}[2] z) => (bool[2] y) {{ c = Constant <value = {dtype} {{1}}> () y = {call} }}"
        );
        at_opset(&text, opset)
    }

    #[test]
    fn numbers_are_at_least_others_if_they_are_greater_or_equal() {
        for (op, strict, opposite) in
            [("GreaterOrEqual", "Greater", "Less"), ("LessOrEqual", "Less", "Greater")]
        {
            let floats = compared(11, "float", &format!("{op} (x, z)"));
            let is_or = [&format!("{strict} (x, z)"), "Equal (x, z)", "Or ("]
                .iter()
                .all(|part| floats.contains(part));
            assert!(is_or && !floats.contains("Not"), "{floats}");
            let integers = compared(11, "int32", &format!("{op} (x, z)"));
            assert!(
                integers.contains(&format!("{opposite} (x, z)")) && integers.contains("Not ("),
                "{integers}"
            );
            assert!(!integers.contains("Equal"), "{integers}");
        }
    }

    #[test]
    fn infinities_are_compared_by_their_sign() {
        let both = compared(9, "float", "IsInf (x)");
        assert!(both.contains("Abs (x)") && both.contains("= inf"), "{both}");
        let positive = compared(9, "float", "IsInf <detect_negative = 0> (x)");
        assert!(!positive.contains("Abs") && positive.contains("= inf"), "{positive}");
        let negative = compared(9, "float", "IsInf <detect_positive = 0> (x)");
        assert!(!negative.contains("Abs") && negative.contains("= -inf"), "{negative}");
    }
}
