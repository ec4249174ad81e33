//! Comparisons that older opsets lack, or have only for integers.

use onnx::{Attrs, Builder, Node};

use super::{Lack, Results, operand};

pub(super) fn greater_or_equal(b: &mut Builder<'_>, node: &Node) -> Results {
    or_equal(b, node, "Greater", "Less")
}

pub(super) fn less_or_equal(b: &mut Builder<'_>, node: &Node) -> Results {
    or_equal(b, node, "Less", "Greater")
}

/// Negates the `opposite` order of integers. A NaN is in no order, so floats are also tested for equality.
fn or_equal(b: &mut Builder<'_>, node: &Node, op: &'static str, opposite: &'static str) -> Results {
    let operands = [operand(node, 0)?, operand(node, 1)?];
    if b.dtype(operands[0]).is_integer() {
        let opposite = b.op(opposite, &operands, Attrs::new())?;
        return Ok(vec![b.op("Not", &[opposite], Attrs::new())?]);
    }
    let strict = b.op(op, &operands, Attrs::new())?;
    let equal = b.op("Equal", &operands, Attrs::new())?;
    Ok(vec![b.op("Or", &[strict, equal], Attrs::new())?])
}

/// Compares floats by their order. Two numbers are equal if neither is greater.
pub(super) fn equal(b: &mut Builder<'_>, node: &Node) -> Results {
    let operands = [operand(node, 0)?, operand(node, 1)?];
    let mut differ = b.op("Less", &operands, Attrs::new())?;
    let greater = b.op("Greater", &operands, Attrs::new())?;
    differ = b.op("Or", &[differ, greater], Attrs::new())?;
    for value in operands {
        let is_number = b.graph().constant(value).and_then(tensor::Tensor::splat);
        if is_number.is_some_and(|value| !value.is_nan()) {
            continue;
        }
        let is_nan = b.op("IsNaN", &[value], Attrs::new())?;
        differ = b.op("Or", &[differ, is_nan], Attrs::new())?;
    }
    Ok(vec![b.op("Not", &[differ], Attrs::new())?])
}

/// Compares with infinity.
pub(super) fn is_inf(b: &mut Builder<'_>, node: &Node) -> Results {
    let mut x = operand(node, 0)?;
    let infinity = match (node.int("detect_negative", 1) != 0, node.int("detect_positive", 1) != 0)
    {
        (true, true) => {
            x = b.op("Abs", &[x], Attrs::new())?;
            f64::INFINITY
        }
        (false, true) => f64::INFINITY,
        (true, false) => f64::NEG_INFINITY,
        (false, false) => return Err(Lack::Because("it detects nothing")),
    };
    let infinity = b.scalar(b.dtype(x), infinity)?;
    Ok(vec![b.op("Equal", &[x, infinity], Attrs::new())?])
}
