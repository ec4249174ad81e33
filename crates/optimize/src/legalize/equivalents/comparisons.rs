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
