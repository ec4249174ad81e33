//! `Conv(x, w, b)` → `Conv(x, w) - -b`, for targets that add biases of convolutions slowly. They would
//! fuse an `Add`, but not a `Sub`.
//!
//! If the result is added to another one that has a bias, the two biases become one.

use onnx::fold::{self, Exactness, Operation};
use onnx::{Attrs, Graph, NodeId, ValueId};
use tensor::{Dim, Tensor};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static SEPARATE_BIASES: Bug =
    Bug { name: "separate_biases", roots: Roots::Named(&["Conv", "ConvTranspose"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let graph = work.graph();
    let node = graph.node(id).clone();
    let Some(bias) = node.input(2) else { return Ok(()) };
    if let Some((other, index, sum)) = joined(graph, id, bias) {
        let old = graph.node(other).input(index);
        let name = old.filter(|old| graph.parameter(*old).is_some());
        let name = name.map(|old| format!("{}/Add", graph.value(old).name));
        let b = &mut work.builder(id);
        let sum = match name {
            Some(name) => b.graph_mut().add_parameter(name, sum),
            None => b.constant(sum),
        };
        let conv = b.op_optional(node.op.name, &node.inputs[..2], node.attrs)?;
        work.substitute(id, &[conv])?;
        work.set_input(other, index, sum);
        return Ok(());
    }
    let rank = graph.ty(node.outputs[0]).rank();
    let Some(Dim::Known(channels)) = graph.ty(bias).shape.first() else { return Ok(()) };
    let mut shape = vec![1; rank - 1];
    shape[0] = usize::try_from(*channels).unwrap_or_default();
    let negative = graph.tensor(bias).and_then(tensor::Tensor::negated);
    let Some(negative) = negative.and_then(|negative| negative.reshaped(&shape).ok()) else {
        return Ok(());
    };
    let name = graph.parameter(bias).map(|_| format!("{}/Neg", graph.value(bias).name));
    let b = &mut work.builder(id);
    let negative = match name {
        Some(name) => b.graph_mut().add_parameter(name, negative),
        None => b.constant(negative),
    };
    let conv = b.op_optional(node.op.name, &node.inputs[..2], node.attrs)?;
    let sum = b.op("Sub", &[conv, negative], Attrs::new())?;
    Ok(work.substitute(id, &[sum])?)
}

/// If the result of a convolution is added to another result that has a bias of the same channels,
/// returns the position of that bias and the sum of both biases.
fn joined(graph: &Graph, id: NodeId, bias: ValueId) -> Option<(NodeId, usize, Tensor)> {
    let y = graph.node(id).outputs[0];
    let (add, index) = graph.value(y).only_consumer()?;
    let add = graph.node(add);
    if !add.is("Add")
        || add.block() != graph.node(id).block()
        || graph.ty(add.outputs[0]) != graph.ty(y)
    {
        return None;
    }
    let (other, place) = bias_of(graph, add.input(1 - index)?, graph.ty(y).shape.get(1)?)?;
    let (old, added) = (graph.node(other).input(place)?, graph.tensor(bias)?);
    let old = graph.tensor(old)?;
    if old.shape() != added.shape() {
        return None;
    }
    let inputs = [Some(old), Some(added)];
    let (dtype, exactness) = (old.dtype(), Exactness::Rounded);
    let sum =
        Operation { node: add, inputs: &inputs, dtype, shape: old.shape(), result: 0, exactness };
    Some((other, place, fold::evaluate(&sum).ok()?))
}

/// Returns the place of the vector that is added to each channel of `value`, which nothing else reads.
fn bias_of(graph: &Graph, value: ValueId, channels: &Dim) -> Option<(NodeId, usize)> {
    graph.only_reader(value)?;
    let id = graph.producer(value)?;
    if graph.node(id).is("Conv") || graph.node(id).is("ConvTranspose") {
        return Some((id, 2));
    }
    // A vector for each example, which comes from a product.
    let is_one = |dim: &Dim| *dim == Dim::Known(1);
    let [_, of_channels, pixels @ ..] = &*graph.ty(value).shape else { return None };
    if of_channels != channels || is_one(channels) || !pixels.iter().all(is_one) {
        return None;
    }
    let mut id = id;
    while graph.node(id).is_reshape() {
        let source = graph.node(id).input(0)?;
        graph.only_reader(source)?;
        id = graph.producer(source)?;
    }
    let node = graph.node(id);
    let fits = node.is("Add") && graph.ty(node.outputs[0]).shape.last() == Some(channels);
    let is_bias = |index: &usize| {
        let shape =
            node.input(*index).filter(|v| graph.tensor(*v).is_some()).map(|v| &graph.ty(v).shape);
        shape.is_some_and(|shape| **shape == [channels.clone()])
    };
    [0, 1].into_iter().find(is_bias).filter(|_| fits).map(|index| (id, index))
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn layer(signature: &str, body: &str, target: &str) -> String {
        let text = format!(
            "g ({signature}) => (float[1,2,4] y) <float[2,2,1] w = {{1, 2, 3, 4}}, float[2] b = {{5, -6}}> {{ {body} }}"
        );
        spelled(&text, target).unwrap()
    }

    #[test]
    fn biases_are_subtracted_after_the_convolution() {
        for op in ["Conv", "ConvTranspose"] {
            let body = format!("y = {op} (x, w, b)");
            let text = layer("float[1,2,4] x", &body, "cuda");
            assert!(text.contains("Sub") && text.contains("{-5.0, 6.0}"), "{text}");
            assert!(text.contains("b/Neg"), "{text}");
            assert!(!layer("float[1,2,4] x", &body, "onnxruntime").contains("Sub"));
        }
    }

    #[test]
    fn other_convolutions_are_unchanged() {
        let computed = "float[1,2,4] x, float[2] c";
        for (signature, inputs) in [("float[1,2,4] x", "x, w"), (computed, "x, w, c")] {
            let text = layer(signature, &format!("y = Conv ({inputs})"), "cuda");
            assert!(!text.contains("Sub"), "{text}");
        }
    }

    /// Returns the numbers that the layer adds, in each `Sub` and `Add`.
    fn joined(body: &str) -> String {
        let text = format!(
            "g (float[1,2,4] x, float[1,3] t) => (float[1,2,4] y)
            <float[2,2,1] w = {{1, 2, 3, 4}}, float[2] b = {{5, -6}}, float[2] c = {{1, 2}}, float[3,2] k = {{1, 2, 3, 4, 5, 6}}> {{
                to = Constant <value_ints = [1, 2, 1]> () {body} }}"
        );
        spelled(&text, "cuda").unwrap()
    }

    #[test]
    fn biases_of_a_sum_become_one() {
        for body in [
            "p = Conv (x, w, b) q = Conv (x, w, c) y = Add (p, q)",
            "p = Conv (x, w, b) q = Conv (x, w, c) y = Add (q, p)",
        ] {
            let text = joined(body);
            assert!(text.contains("{-6.0, 4.0}") && text.matches("Sub").count() == 1, "{text}");
        }
        let text = joined(
            "p = Conv (x, w, b) m = MatMul (t, k) s = Add (m, c) q = Reshape (s, to) y = Add (p, q)",
        );
        assert!(text.contains("\"c/Add\" = {6.0, -4.0}") && !text.contains("Sub"), "{text}");
    }

    #[test]
    fn biases_of_values_with_other_readers_stay() {
        for body in [
            "p = Conv (x, w, b) q = Conv (x, w) y = Add (p, q)",
            "p = Conv (x, w, b) q = Conv (x, w, c) r = Add (p, q) y = Mul (r, q)",
            "p = Conv (x, w, b) m = MatMul (t, k) s = Add (m, c) q = Reshape (s, to)
             r = Add (p, q) y = Mul (r, q)",
            "p = Conv (x, w, b) q = Add (x, x) y = Add (p, q)",
        ] {
            let text = joined(body);
            assert!(text.contains("{-5.0, 6.0}"), "{text}");
        }
    }
}
