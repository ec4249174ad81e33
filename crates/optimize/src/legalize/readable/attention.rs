//! Attention in the form that optimisers of transformers look for: scores are divided after their
//! product, and a token mask is `(1 - mask) * lowest`, whose head and query axes are inserted one by
//! one.

use onnx::facts::is_finite;
use onnx::{Attrs, Editor, Graph, NodeId, Op, Result, Use, ValueId, attrs};
use tensor::{DType, Dim, Tensor, Type};

use crate::legalize::made_by;
use crate::rewrites::Scores;

/// Converts the parts of attention at `id`.
pub(super) fn spell(edit: &mut Editor<'_>, id: NodeId) -> Result<()> {
    for spell in [chosen_mask, axes_of_mask, scale_of_scores] {
        if edit.graph().get(id).is_some() {
            spell(edit, id)?;
        }
    }
    Ok(())
}

/// Replaces the multiplication of scores by a power of two with a division, which the optimiser
/// looks for. Both are exact, and runtimes fuse either into the product.
fn scale_of_scores(edit: &mut Editor<'_>, id: NodeId) -> Result<()> {
    let Some((scores, divisor)) = divisor_of_scores(edit.graph(), id) else { return Ok(()) };
    let mark = edit.mark();
    let mut b = edit.builder("Mul", id);
    let divisor = b.constant(divisor);
    let divided = b.op("Div", &[scores, divisor], Attrs::new())?;
    edit.replace("Mul", id, &[divided], &edit.added_since(mark))
}

/// Returns the divisor of scores, if `id` multiplies them by a power of two.
fn divisor_of_scores(graph: &Graph, id: NodeId) -> Option<(ValueId, Tensor)> {
    let node = graph.node(id);
    let (scores, scale) = (node.input(0)?, graph.constant(node.input(1)?)?);
    let is_product = made_by(graph, scores, "MatMul").is_some();
    let result = *node.outputs.first()?;
    let sum = graph.only_reader(result).filter(|reader| reader.is("Add"));
    let sum = sum.and_then(|sum| sum.outputs.first().copied());
    let is_softmax = |place| matches!(place, Use::Operand(id, _) if graph.node(id).is("Softmax"));
    let is_read = graph.value(sum.unwrap_or(result)).uses().all(is_softmax);
    if !node.is("Mul") || !is_product || !is_read || !scale.shape().is_empty() {
        return None;
    }
    let number = scale.splat().filter(|number| is_power_of_two(number.recip()))?;
    Tensor::scalar(scale.dtype(), number.recip()).map(|divisor| (scores, divisor))
}

/// Returns `true` if a number is 2, 4, … 1024. Its inverse is exact in every float type.
fn is_power_of_two(number: f64) -> bool {
    (1..=10).any(|exponent| number == 2.0_f64.powi(exponent))
}

/// Replaces a selected token mask, `Where(mask, 0, lowest)`, by arithmetic: the same number, or a
/// signed zero, is added to the scores. The mask is small compared to them, and all layers share
/// it.
fn chosen_mask(edit: &mut Editor<'_>, id: NodeId) -> Result<()> {
    let Some(chosen) = Chosen::of(edit.graph(), id) else { return Ok(()) };
    let Some(all) = Tensor::scalar(DType::F32, 1.0) else { return Ok(()) };
    for scores in &chosen.scores {
        scores.divide_behind(edit);
    }
    let mark = edit.mark();
    let Chosen { mut shown, moved, test, lowest, .. } = chosen;
    if let Some(test) = test {
        let node = edit.graph().node(test);
        let (op, node_attrs) = (node.op.name, node.attrs.clone());
        let mut inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        inputs[0] = shown;
        let ty = Type::new(DType::Bool, edit.graph().ty(shown).shape.clone());
        shown = add(edit, test, id, (op, &inputs, node_attrs), ty);
    }
    let shown = insert_axes(edit, moved, id, shown);
    let number = Type::new(DType::F32, edit.graph().ty(shown).shape.clone());
    let cast = ("Cast", &[shown][..], attrs! { to: DType::F32 });
    let shown = add(edit, id, id, cast, number.clone());
    let all = edit.graph_mut().intern_constant(all);
    let hidden = add(edit, id, id, ("Sub", &[all, shown], Attrs::new()), number.clone());
    let added = add(edit, id, id, ("Mul", &[hidden, lowest], Attrs::new()), number);
    edit.replace("Where", id, &[added], &edit.added_since(mark))
}

/// Adds a node in front of `before`, with the origin of the node that it replaces, `of`.
fn add(
    edit: &mut Editor<'_>,
    of: NodeId,
    before: NodeId,
    (op, inputs, attrs): (&'static str, &[ValueId], Attrs),
    ty: Type,
) -> ValueId {
    let inputs = inputs.iter().copied().map(Some).collect();
    let node = edit.add_like(of, before, (Op::onnx(op), inputs, attrs), vec![ty]);
    edit.graph().node(node).outputs[0]
}

/// Inserts the head and query axes of a mask of examples and tokens one by one.
fn insert_axes(edit: &mut Editor<'_>, of: NodeId, before: NodeId, mask: ValueId) -> ValueId {
    let mut ty = edit.graph().ty(mask).clone();
    let mut value = mask;
    for axis in [1, 2] {
        ty.shape.insert(axis, Dim::Known(1));
        let axes = edit.graph_mut().intern_constant(Tensor::i64s(&[axis as i64]));
        let unsqueeze = ("Unsqueeze", &[value, axes][..], Attrs::new());
        value = add(edit, of, before, unsqueeze, ty.clone());
    }
    value
}

/// A selected mask, and the scores that it is added to.
struct Chosen {
    /// The visible tokens of each example, or the operand of `test`.
    shown: ValueId,
    /// The node that inserts the head and query axes.
    moved: NodeId,
    /// The comparison that follows the insertion of axes.
    test: Option<NodeId>,
    lowest: ValueId,
    scores: Vec<ScaledScores>,
}

impl Chosen {
    fn of(graph: &Graph, id: NodeId) -> Option<Self> {
        let node = graph.node(id);
        let [Some(mask), Some(zero), Some(lowest)] = node.inputs[..] else { return None };
        let result = *node.outputs.first()?;
        let number = |value| graph.constant(value).filter(|c| c.shape().is_empty())?.splat();
        let is_low = |number: f64| number < 0.0 && number.is_finite();
        let is_mask = node.is("Where")
            && graph.ty(result).dtype == DType::F32
            && number(zero) == Some(0.0)
            && number(lowest).is_some_and(is_low);
        if !is_mask {
            return None;
        }
        let producer = |value| graph.producer(value).map(|id| (id, graph.node(id)));
        let (last, maker) = producer(mask)?;
        let tests = ["Cast", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];
        let is_test = tests.iter().any(|op| maker.is(op));
        let is_number = |value: &Option<ValueId>| value.is_some_and(|v| number(v).is_some());
        let test = (is_test && maker.inputs[1..].iter().all(is_number)).then_some(last);
        let wide = if test.is_some() { maker.input(0)? } else { mask };
        let (moved, movement) = producer(wide)?;
        let moves = movement.is("Reshape") || movement.is("Unsqueeze");
        let shown = movement.input(0).filter(|_| moves)?;
        if !is_beside_scores(graph, shown, wide) {
            return None;
        }
        let scores: Option<Vec<_>> =
            graph.value(result).uses().map(|place| ScaledScores::of(graph, place)).collect();
        let scores = scores.filter(|scores| !scores.is_empty())?;
        Some(Self { shown, moved, test, lowest, scores })
    }
}

/// Returns `true` if `wide` has the examples and tokens of `mask`, with head and query axes between
/// them.
fn is_beside_scores(graph: &Graph, mask: ValueId, wide: ValueId) -> bool {
    let [examples, tokens] = graph.ty(mask).shape.as_slice() else { return false };
    let one = Dim::Known(1);
    *graph.ty(wide).shape == [examples.clone(), one.clone(), one, tokens.clone()]
}

/// Scores that are divided by the square root of the head size, which the optimiser assumes.
struct ScaledScores {
    product: NodeId,
    /// The division of the queries, if these are divided instead of the scores.
    queries: Option<NodeId>,
}

impl ScaledScores {
    /// Returns the scores that the mask is added to at `place`.
    fn of(graph: &Graph, place: Use) -> Option<Self> {
        let Use::Operand(sum, index) = place else { return None };
        let sum = graph.node(sum);
        let scores = sum.input(1_usize.checked_sub(index)?).filter(|_| sum.is("Add"))?;
        let softmax = graph.only_reader(*sum.outputs.first()?).filter(|n| n.is("Softmax"))?;
        let (mut id, mut factor) = (graph.producer(scores)?, 1.0);
        if let Some((x, by)) = scale(graph, id) {
            (id, factor) = (graph.producer(x)?, by);
        }
        let product = graph.node(id);
        let (q, k) = (product.input(0)?, product.input(1)?);
        if !product.is("MatMul") {
            return None;
        }
        let mut heads = q;
        let division = graph.producer(q).filter(|division| graph.node(*division).is("Div"));
        if let Some(division) = division {
            let (x, by) = scale(graph, division)?;
            let is_exact = factor == 1.0 && is_power_of_two(by.recip());
            let largest = Scores::of(graph, scores, softmax)?.largest / by;
            let is_alone = graph.only_reader(q).is_some() && graph.only_reader(scores).is_some();
            if !is_exact || !is_alone || !is_finite(largest, DType::F32) {
                return None;
            }
            (heads, factor) = (x, by);
        }
        let size = graph.ty(heads).shape.last()?.as_known()?;
        let is_usual = (factor * factor * size as f64 - 1.0).abs() < 1e-6;
        let is_split = [heads, k].into_iter().all(|x| is_split_projection(graph, x));
        (is_usual && is_split).then_some(Self { product: id, queries: division })
    }

    /// Divides the scores instead of the queries.
    fn divide_behind(&self, edit: &mut Editor<'_>) {
        let Some(division) = self.queries else { return };
        let graph = edit.graph();
        let (node, scores) = (graph.node(division).clone(), graph.node(self.product).outputs[0]);
        let ty = graph.ty(scores).clone();
        let Some(Use::Operand(sum, _)) = graph.value(scores).uses().next() else { return };
        edit.set_input(self.product, 0, node.inputs[0]);
        let parts = (node.op, vec![Some(scores), node.inputs[1]], node.attrs);
        let divided = edit.add_like(division, sum, parts, vec![ty]);
        edit.put_between(scores, edit.graph().node(divided).outputs[0]);
        edit.remove(division, &[divided]);
    }
}

/// Returns the value that `id` multiplies by a number, and the number.
fn scale(graph: &Graph, id: NodeId) -> Option<(ValueId, f64)> {
    let node = graph.node(id);
    let number = graph.constant(node.input(1)?).filter(|c| c.shape().is_empty())?.splat()?;
    let factor = match node.op.name {
        "Div" => number.recip(),
        "Mul" => number,
        _ => return None,
    };
    Some((node.input(0)?, factor))
}

/// Returns `true` if `x` is a product with a bias whose features are split into heads.
fn is_split_projection(graph: &Graph, x: ValueId) -> bool {
    let step = |x, op, operand| made_by(graph, x, op)?.input(operand);
    let biased = step(x, "Transpose", 0).and_then(|x| step(x, "Reshape", 0));
    biased.is_some_and(|x| {
        let operands = [0, 1].map(|operand| step(x, "Add", operand));
        operands.iter().flatten().any(|x| step(*x, "MatMul", 0).is_some())
    })
}

/// Inserts the head and query axes of a token mask one by one, as indexing with `None` does.
fn axes_of_mask(edit: &mut Editor<'_>, id: NodeId) -> Result<()> {
    let Some(mask) = mask_of_tokens(edit.graph(), id) else { return Ok(()) };
    let mark = edit.mark();
    let value = insert_axes(edit, id, id, mask);
    edit.replace("Unsqueeze", id, &[value], &edit.added_since(mark))
}

/// Returns the mask of examples and tokens that `id` aligns with scores, if `(1 - mask) * lowest`
/// is added to them.
fn mask_of_tokens(graph: &Graph, id: NodeId) -> Option<ValueId> {
    let node = graph.node(id);
    let moves = node.is("Reshape") || node.is("Unsqueeze");
    let (mask, result) = (node.input(0).filter(|_| moves)?, *node.outputs.first()?);
    let read_by = |value: ValueId, op: &str| {
        graph.value(value).uses().find_map(|place| match place {
            Use::Operand(id, _) if graph.node(id).is(op) => graph.node(id).outputs.first().copied(),
            _ => None,
        })
    };
    let number = read_by(result, "Cast").unwrap_or(result);
    let mut ways = ["Sub", "Mul", "Add", "Softmax"].iter();
    let scores = ways.try_fold(number, |value, op| read_by(value, op));
    scores.filter(|_| is_beside_scores(graph, mask, result)).map(|_| mask)
}

#[cfg(test)]
mod tests {
    use super::super::tests::is_spelled;

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
        let masked = |op: &str, number: &str| {
            scores(op, number, "Softmax")
                .replace("y = Softmax (t)", "u = Add (t, c) y = Softmax (u)")
        };
        is_spelled(
            &masked("Mul", "0.125"),
            &masked("Div", "8")
                .replace("Add (t, c)", "Add (t, e)")
                .replace("s = MatMul", "e = Constant <value = float {0.125}> () s = MatMul"),
        );
        for other in [scores("Mul", "0.3", "Softmax"), scores("Mul", "0.125", "Tanh")] {
            is_spelled(&other, &other);
        }
    }

    /// Returns attention with two heads of four features, whose queries or scores are divided, to
    /// the tokens that a mask leaves visible.
    fn attention(mask: &str, division: &str) -> String {
        format!(
            "g (float[B, T, 8] x, int32[B, T] tokens) => (float[B, 2, T, 4] y) {{
                scale = Constant <value = float[8] {{1, 1, 1, 1, 1, 1, 1, 1}}> ()
                w = Constant <value = float[8, 8] {{{}}}> ()
                heads = Constant <value_ints = [0, 0, 2, 4]> ()
                zero = Constant <value = float {{0}}> () one = Constant <value = float {{1}}> ()
                low = Constant <value = float {{-1e30}}> ()
                two = Constant <value = float {{2}}> () three = Constant <value = float {{3}}> ()
                none = Constant <value = int32 {{0}}> ()
                k = Constant <value_ints = [0, 1, 1, -1]> ()
                a = Constant <value_ints = [1]> () b = Constant <value_ints = [2]> ()
                z = LayerNormalization <axis = -1> (x, scale)
                q1 = MatMul (z, w) q2 = Add (q1, scale)
                q3 = Reshape (q2, heads) q = Transpose <perm = [0, 2, 1, 3]> (q3)
                k1 = MatMul (z, w) k2 = Add (k1, scale)
                k3 = Reshape (k2, heads) t = Transpose <perm = [0, 2, 3, 1]> (k3)
                v1 = MatMul (z, w) v2 = Add (v1, scale)
                v3 = Reshape (v2, heads) v = Transpose <perm = [0, 2, 1, 3]> (v3)
                {mask} {division} p = Softmax <axis = -1> (m) y = MatMul (p, v) }}",
            vec!["0.5"; 64].join(", ")
        )
    }

    const CHOSEN: &str = "r = Reshape (tokens, k) c = Greater (r, none) add = Where (c, zero, low)";
    const COMPUTED: &str = "v7 = Greater (tokens, none) v9 = Unsqueeze (v7, a)
        v11 = Unsqueeze (v9, b) v12 = Cast <to = 1> (v11) v14 = Sub (one, v12) add = Mul (v14, low)";

    #[test]
    fn a_mask_that_is_chosen_is_computed() {
        let behind = "s1 = MatMul (q, t) s = Div (s1, two) m = Add (s, add)";
        is_spelled(&attention(CHOSEN, behind), &attention(COMPUTED, behind));
    }

    #[test]
    fn queries_that_are_divided_by_a_power_of_two_are_scores_that_are() {
        let before = "d = Div (q, two) s = MatMul (d, t) m = Add (s, add)";
        let behind = "s = MatMul (q, t) v17 = Div (s, two) m = Add (v17, add)";
        is_spelled(&attention(CHOSEN, before), &attention(COMPUTED, behind));
    }

    #[test]
    fn other_scales_and_masks_are_unchanged() {
        for division in [
            "d = Div (q, three) s = MatMul (d, t) m = Add (s, add)",
            "s1 = MatMul (q, t) s = Div (s1, three) m = Add (s, add)",
            "s = MatMul (q, t) m = Add (s, add)",
        ] {
            let other = attention(CHOSEN, division);
            is_spelled(&other, &other);
        }
        let behind = "s1 = MatMul (q, t) s = Div (s1, two) m = Add (s, add)";
        for mask in [
            CHOSEN.replace("-1e30", "-inf").replace("low)", "one)"),
            CHOSEN.replace("zero, low", "low, zero"),
            CHOSEN.replace("zero, low", "zero, zero"),
            CHOSEN.replace("zero, low", "one, low"),
        ] {
            let other = attention(&mask, behind);
            is_spelled(&other, &other);
        }
    }

    #[test]
    fn attention_of_another_form_is_unchanged() {
        let behind = "s1 = MatMul (q, t) s = Div (s1, two) m = Add (s, add)";
        let usual = attention(CHOSEN, behind);
        for other in [
            // Zero times infinity is no number.
            usual.replace("-1e30", "-inf"),
            // Queries and keys that are no projections.
            usual.replace("q1 = MatMul (z, w) q2 = Add (q1, scale)", "q2 = Add (z, scale)"),
            usual.replace("k1 = MatMul (z, w) k2 = Add (k1, scale)", "k2 = Add (z, scale)"),
            // Queries and scores that are both divided.
            attention(
                CHOSEN,
                "d = Div (q, two) s1 = MatMul (d, t) s = Div (s1, two) m = Add (s, add)",
            ),
        ] {
            is_spelled(&other, &other);
        }
    }

    #[test]
    fn only_products_times_one_number_are_scores() {
        let scores = |number: &str, product: &str| {
            format!(
                "g (float[2, 4] q, float[4, 3] k) => (float[2, 3] y) {{
                    c = Constant <value = {number}> ()
                    s = {product} (q, k) t = Mul (s, c) y = Softmax (t) }}"
            )
        };
        for (number, product) in [
            ("float {0.125}", "Gemm"),
            ("float[1] {0.125}", "MatMul"),
            ("float {-0.125}", "MatMul"),
        ] {
            let other = scores(number, product);
            is_spelled(&other, &other);
        }
    }
}
