//! The order of floats by their bits, where there is no operator that gives them: doubles in the same
//! order. NaN has no sign there; all of them come after infinity.

use onnx::formula::formulas;
use onnx::{Builder, Graph, Node, ValueId};
use tensor::{DType, Tensor};

use super::{Lack, Results, operand};

/// Less than what the smallest positive number of a narrower type could be rounded by.
const SIGN_OF_ZERO: f64 = 1e-70;

/// More than any finite number of a narrower type.
const INFINITE: f64 = 1e300;

/// `TopK` of floats in the order of their bits.
pub(super) fn top_k(b: &mut Builder<'_>, node: &Node) -> Results {
    let count = operand(node, 1)?;
    let by_bits = ordered_by_bits(b.graph, operand(node, 0)?);
    let is_read = b.graph.value(node.outputs[0]).is_used();
    let Some(x) = by_bits.filter(|x| !is_read && b.dtype(*x) != DType::F64) else {
        return Err(Lack::Because("it does not order floats by their bits"));
    };
    let [numbers] = formulas(b, [x], |[x]| {
        let x = x.cast(DType::F64);
        // The addend is lost in everything but zeros, where it has the sign.
        let signed = x + x.reciprocal().clip(-SIGN_OF_ZERO, SIGN_OF_ZERO);
        [x.is_nan().select(f64::INFINITY, signed.clip(-INFINITE, INFINITE))]
    })?;
    Ok(b.op_many("TopK", &[numbers, count], node.attrs.clone(), 2)?)
}

/// The floats whose bits are `keys`, those of negative ones counting backwards.
fn ordered_by_bits(graph: &Graph, keys: ValueId) -> Option<ValueId> {
    let node = |value, op| graph.producer(value).map(|id| graph.node(id)).filter(|n| n.is(op));
    let choice = node(keys, "Where")?;
    let (is_negative, flipped, bits) = (choice.input(0)?, choice.input(1)?, choice.input(2)?);
    let is_integer = |value: ValueId, number: i128| {
        graph.constant(value).and_then(Tensor::to_ints).is_some_and(|all| all == [number])
    };
    let compared = node(is_negative, "Less")?;
    let mask = node(flipped, "BitwiseXor")?;
    let (_, highest) = graph.ty(bits).dtype.int_range()?;
    let is_order = compared.input(0)? == bits
        && is_integer(compared.input(1)?, 0)
        && mask.input(0)? == bits
        && is_integer(mask.input(1)?, highest);
    let x = node(bits, "BitCast").filter(|_| is_order)?.input(0)?;
    graph.ty(x).dtype.is_float().then_some(x)
}
