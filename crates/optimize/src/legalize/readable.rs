//! Spellings that mean the same to runtimes, and that more tools can read.

use onnx::{Attr, Attrs, Graph, NodeId, Op, Use, ValueId};
use tensor::{DType, Dim, Tensor, Type};

/// `Loop` without a limit gets the largest one: onnxruntime's symbolic shape inference, and what is built on
/// it, look for the type of the operand.
fn limit_of_loop(graph: &mut Graph, id: NodeId) {
    let node = graph.node(id);
    if node.is("Loop") && node.input(0).is_none() && !node.inputs.is_empty() {
        let limit = Tensor::int_scalar(DType::I64, i64::MAX.into());
        let limit = limit.map(|limit| graph.intern_constant(limit));
        graph.set_input(id, 0, limit);
    }
}

/// `Scan` without results of each round has no directions for them: older checkers refuse empty lists.
fn lists_of_scan(graph: &mut Graph, id: NodeId) {
    if graph.node(id).is("Scan") {
        let is_empty = |attr: &Attr| matches!(attr, Attr::Ints(list) if list.is_empty());
        graph.node_mut(id).attrs.retain(|(_, attr)| !is_empty(attr));
    }
}

/// A reduction of all axes does not list them: onnxruntime's symbolic shape inference knows the axes of few
/// operators.
fn axes_of_reduction(graph: &mut Graph, id: NodeId) {
    let node = graph.node(id);
    let (Some(x), Some(axes)) = (node.input(0), node.input(1)) else { return };
    if !node.op.domain.is_empty() || !node.op.name.starts_with("Reduce") {
        return;
    }
    let rank = graph.ty(x).shape.len();
    let axes = graph.constant(axes).and_then(Tensor::to_i64s);
    let is_all = axes.is_some_and(|axes| rank > 0 && axes.len() == rank);
    if is_all && node.int("noop_with_empty_axes", 0) == 0 {
        graph.set_input(id, 1, None);
        graph.node_mut(id).inputs.pop();
    }
}

/// Scores of attention are divided where they are multiplied by a power of two: onnxruntime's transformer
/// optimiser looks for the division. Both are exact, and runtimes move either into the product.
fn scale_of_scores(graph: &mut Graph, id: NodeId) {
    if let Some(divisor) = divisor_of_scores(graph, id) {
        let divisor = graph.intern_constant(divisor);
        graph.set_input(id, 1, Some(divisor));
        graph.node_mut(id).op = Op::onnx("Div");
    }
}

/// What to divide scores by that `id` multiplies by a power of two.
fn divisor_of_scores(graph: &Graph, id: NodeId) -> Option<Tensor> {
    let node = graph.node(id);
    let (scores, scale) = (node.input(0)?, graph.constant(node.input(1)?)?);
    let is_product = graph.producer(scores).is_some_and(|id| graph.node(id).is("MatMul"));
    let is_softmax = |place| matches!(place, Use::Operand(id, _) if graph.node(id).is("Softmax"));
    let is_read = graph.value(*node.outputs.first()?).uses().all(is_softmax);
    if !node.is("Mul") || !is_product || !is_read || !scale.shape().is_empty() {
        return None;
    }
    let number = scale.splat().filter(|number| is_fraction_of_two(*number))?;
    Tensor::scalar(scale.dtype(), number.recip())
}

/// Whether a number is 1/2, 1/4, … 1/1024: one over it is exact in every floating-point type.
fn is_fraction_of_two(number: f64) -> bool {
    (1..=10).any(|exponent| number == 0.5_f64.powi(exponent))
}

/// A mask of tokens gets the axes of heads and queries one by one, as it does where people index it with
/// `None`: onnxruntime's transformer optimiser looks for both to fuse attention.
fn axes_of_mask(graph: &mut Graph, id: NodeId) {
    let Some(mask) = mask_of_tokens(graph, id) else { return };
    let ty = graph.ty(mask).clone();
    let [examples, tokens] = ty.shape.as_slice() else { return };
    let [heads, queries] = [1, 2].map(|axis| graph.intern_constant(Tensor::i64s(&[axis])));
    let (block, origin) = (graph.node(id).block(), graph.node(id).origin);
    let unsqueeze = Op::onnx("Unsqueeze");
    let parts = (unsqueeze, vec![Some(mask), Some(heads)], Attrs::new());
    let wider = Type::new(ty.dtype, vec![examples.clone(), Dim::Known(1), tokens.clone()]);
    let first = graph.add_node(block, Some(id), parts, vec![wider], origin);
    let wider = graph.node(first).outputs[0];
    graph.set_input(id, 0, Some(wider));
    graph.set_input(id, 1, Some(queries));
    let node = graph.node_mut(id);
    node.op = unsqueeze;
    node.attrs.clear();
}

/// The mask of examples and tokens that `id` puts beside scores: `(1 - mask) * lowest` is added to them.
fn mask_of_tokens(graph: &Graph, id: NodeId) -> Option<ValueId> {
    let node = graph.node(id);
    let moves = node.is("Reshape") || node.is("Unsqueeze");
    let (mask, result) = (node.input(0).filter(|_| moves)?, *node.outputs.first()?);
    let [examples, tokens] = graph.ty(mask).shape.as_slice() else { return None };
    let one = Dim::Known(1);
    let is_beside = *graph.ty(result).shape == [examples.clone(), one.clone(), one, tokens.clone()];
    let read_by = |value: ValueId, op: &str| {
        graph.value(value).uses().find_map(|place| match place {
            Use::Operand(id, _) if graph.node(id).is(op) => graph.node(id).outputs.first().copied(),
            _ => None,
        })
    };
    let number = read_by(result, "Cast").unwrap_or(result);
    let mut ways = ["Sub", "Mul", "Add", "Softmax"].iter();
    let scores = ways.try_fold(number, |value, op| read_by(value, op));
    scores.filter(|_| is_beside).map(|_| mask)
}

/// Puts them in.
pub(super) fn spell(graph: &mut Graph) {
    for id in graph.all_nodes() {
        axes_of_reduction(graph, id);
        scale_of_scores(graph, id);
        axes_of_mask(graph, id);
        limit_of_loop(graph, id);
        lists_of_scan(graph, id);
    }
}

#[cfg(test)]
mod tests {
    use onnx::text::print;
    use provenance::Origins;

    use super::spell;
    use crate::testing::graph;

    #[track_caller]
    fn is_spelled(text: &str, expected: &str) {
        let mut found = graph(text, &mut Origins::default());
        spell(&mut found);
        onnx::verify(&found, None).unwrap();
        assert_eq!(print(&found), print(&graph(expected, &mut Origins::default())));
    }

    #[test]
    fn a_reduction_of_all_axes_does_not_list_them() {
        is_spelled(
            "g (float[2, 3] x) => (float y) {
                a = Constant <value_ints = [0, 1]> () y = ReduceMax <keepdims = 0> (x, a) }",
            "g (float[2, 3] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }",
        );
        let one = "g (float[2, 3] x) => (float[2] y) {
            a = Constant <value_ints = [1]> () y = ReduceMax <keepdims = 0> (x, a) }";
        is_spelled(one, one);
        let none = "g (float[2, 3] x) => (float[1, 1] y) {
            a = Constant <value_ints = [0, 1]> ()
            y = ReduceMax <noop_with_empty_axes = 1> (x, a) }";
        is_spelled(none, none);
    }

    #[test]
    fn a_mask_of_tokens_gets_its_axes_one_by_one() {
        let scores = |axes: &str, last: &str| {
            format!(
                "g (int32[B, T] mask, float[B, 2, T, T] s) => (float[B, 2, T, T] y) {{
                    one = Constant <value = float {{1}}> ()
                    low = Constant <value = float {{-10000}}> ()
                    {axes} f = Cast <to = 1> (m) d = Sub (one, f) w = Mul (d, low)
                    a = Add (s, w) y = {last} (a) }}"
            )
        };
        let reshaped = "k = Constant <value_ints = [0, 1, 1, -1]> () m = Reshape (mask, k)";
        let one_by_one = "h = Constant <value_ints = [1]> () q = Constant <value_ints = [2]> ()
            v1 = Unsqueeze (mask, h) m = Unsqueeze (v1, q)";
        is_spelled(&scores(reshaped, "Softmax"), &scores(one_by_one, "Softmax"));
        let other = scores(reshaped, "Tanh");
        is_spelled(&other, &other);
    }

    #[test]
    fn scores_are_divided_by_powers_of_two() {
        let scores = |op: &str, number: &str, reader: &str| {
            format!(
                "g (float[2, 4] q, float[4, 3] k) => (float[2, 3] y) {{
                    c = Constant <value = float {{{number}}}> ()
                    s = MatMul (q, k) t = {op} (s, c) y = {reader} (t) }}"
            )
        };
        is_spelled(&scores("Mul", "0.125", "Softmax"), &scores("Div", "8", "Softmax"));
        for other in [scores("Mul", "0.3", "Softmax"), scores("Mul", "0.125", "Tanh")] {
            is_spelled(&other, &other);
        }
    }
}
