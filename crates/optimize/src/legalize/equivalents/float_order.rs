//! The order of floats by their bits, for opsets without an operator that returns them. NaN has no
//! sign there, and every NaN comes after infinity.

use onnx::formula::formulas;
use onnx::{Builder, Graph, Node, ValueId, attrs, fold};
use tensor::{DType, Tensor};

use super::{Equivalent, Lack, Results, operand};
use crate::legalize::made_by;

/// A number so small that adding it in double precision changes no non-zero number of a narrower
/// type.
const SIGN_OF_ZERO: f64 = 1e-70;

/// A number above every finite number of a narrower type.
const INFINITE: f64 = 1e300;

/// Returns `true` if a node is the `TopK` of floats in the order of their bits.
pub(in super::super) fn orders_floats(graph: &Graph, node: &Node) -> bool {
    floats_in_order(graph, node).is_some()
}

/// Returns an equivalent of `TopK` in the order of bits that does not use the bits.
pub(in super::super) fn top_k(has_double: bool) -> Equivalent {
    if has_double { top_k_in_double } else { top_k_by_two_keys }
}

fn top_k_in_double(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = ordered_floats(b.graph(), node)?;
    if b.dtype(x) == DType::F64 {
        return top_k_by_two_keys(b, node);
    }
    let [numbers] = formulas(b, [x], |[x]| {
        let wide = x.cast(DType::F64);
        // The addend is absorbed by all numbers except zeros, where it provides the sign.
        let signed = wide + wide.reciprocal().clip(-SIGN_OF_ZERO, SIGN_OF_ZERO);
        // Not every runtime tests double precision for NaN.
        [x.is_nan().select(f64::INFINITY, signed.clip(-INFINITE, INFINITE))]
    })?;
    Ok(b.op_many("TopK", &[numbers, operand(node, 1)?], node.attrs.clone(), 2)?)
}

/// Computes `TopK` if no type is wide enough for a single key. The first key does not distinguish
/// the two zeros, or infinity from NaN, so elements are sorted by a second key before. `TopK`
/// preserves the order of equal elements.
fn top_k_by_two_keys(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = ordered_floats(b.graph(), node)?;
    let axis = node.int("axis", -1);
    let [first, second] = formulas(b, [x], |[x]| {
        let is_nan = x.is_nan();
        let behind = x.reciprocal().clip(-1.0, 1.0);
        [is_nan.select(f64::INFINITY, x), is_nan.select(1.0, behind)]
    })?;
    let at = fold::axis(axis, b.rank(x)).map_err(Lack::Because)? as i64;
    let extent = b.op("Shape", &[x], attrs! { start: at, end: at + 1 })?;
    let order = b.op_many("TopK", &[second, extent], attrs! { axis: axis }, 2)?[1];
    let first = b.op("GatherElements", &[first, order], attrs! { axis: axis })?;
    let found = b.op_many("TopK", &[first, operand(node, 1)?], node.attrs.clone(), 2)?;
    let places = b.op("GatherElements", &[order, found[1]], attrs! { axis: axis })?;
    Ok(vec![found[0], places])
}

fn ordered_floats(graph: &Graph, node: &Node) -> Result<ValueId, Lack> {
    let floats = floats_in_order(graph, node);
    floats.ok_or(Lack::Because("it does not order floats by their bits"))
}

/// Returns the floats whose indices a `TopK` returns, in the order of their bits.
fn floats_in_order(graph: &Graph, node: &Node) -> Option<ValueId> {
    let x = ordered_by_bits(graph, node.input(0).filter(|_| node.is("TopK"))?)?;
    let values = node.outputs.first()?;
    (!graph.value(*values).is_used() && node.int("largest", 1) == 1).then_some(x)
}

/// Returns the floats whose bits are `keys`, with those of negative numbers in reverse.
fn ordered_by_bits(graph: &Graph, keys: ValueId) -> Option<ValueId> {
    let choice = made_by(graph, keys, "Where")?;
    let (is_negative, flipped, bits) = (choice.input(0)?, choice.input(1)?, choice.input(2)?);
    let is_integer = |value: ValueId, number: i128| {
        graph.constant(value).and_then(Tensor::to_ints).is_some_and(|all| all == [number])
    };
    let compared = made_by(graph, is_negative, "Less")?;
    let mask = made_by(graph, flipped, "BitwiseXor")?;
    let (_, highest) = graph.ty(bits).dtype.int_range()?;
    let is_order = compared.input(0)? == bits
        && is_integer(compared.input(1)?, 0)
        && mask.input(0)? == bits
        && is_integer(mask.input(1)?, highest);
    let x = made_by(graph, bits, "BitCast").filter(|_| is_order)?.input(0)?;
    graph.ty(x).dtype.is_float().then_some(x)
}

#[cfg(test)]
mod tests {
    use onnx::Graph;
    use provenance::Origins;

    use super::orders_floats;
    use crate::testing::graph;

    #[test]
    fn only_floats_are_ordered_by_their_bits() {
        let is_order = |negative: &str, flipped: &str, options: &str| {
            let text = format!(
                "g (float[4] x, int32[4] other) => (int64[2] i) {{
                    zero = Constant <value = int32 {{0}}> ()
                    highest = Constant <value = int32 {{2147483647}}> ()
                    bits = BitCast <to = 6> (x) n = Less ({negative}) f = BitwiseXor ({flipped})
                    keys = Where (n, f, bits) k = Constant <value_ints = [2]> ()
                    v, i = TopK <{options}> (keys, k)
                }}"
            );
            let graph = graph(&text, &mut Origins::default());
            let top = graph.producer(graph.block(Graph::MAIN).outputs()[0]).unwrap();
            orders_floats(&graph, graph.node(top))
        };
        assert!(is_order("bits, zero", "bits, highest", "axis = 0"));
        for (negative, flipped, options) in [
            ("other, zero", "bits, highest", "axis = 0"),
            ("bits, highest", "bits, highest", "axis = 0"),
            ("bits, zero", "other, highest", "axis = 0"),
            ("bits, zero", "bits, zero", "axis = 0"),
            ("bits, zero", "bits, highest", "largest = 0"),
        ] {
            assert!(!is_order(negative, flipped, options), "{negative}; {flipped}; {options}");
        }
    }
}
