//! `(x - mean) / sqrt(var + eps) * scale + bias` → `BatchNormalization`, if all four parameters are
//! given and not computed from `x`, as in inference. They keep their values and names.
//!
//! The spellings are in `patterns/batch_norm.txt`. They are matched after the layout pass, which puts the
//! channels second. Unlike other patterns, they may share factors with one another and read them from
//! outside a loop.

use std::sync::LazyLock;

use onnx::{Graph, Node, NodeId, ValueId};
use tensor::{DType, Dim, Tensor};

use super::conditions::normalization::fill;
use super::found::Found;
use super::matcher;
use super::pattern::{self, Spelling};
use super::source_of;
use crate::rewrites::channels::{is_of_channels, is_spread, vector};
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "batch_norm", roots: Roots::Named(&["Add", "Div", "Mul"]), try_at };

static SPELLINGS: LazyLock<Result<Vec<Spelling>, String>> = LazyLock::new(|| {
    pattern::compile(&[
        ("words", include_str!("patterns/words.txt")),
        ("batch_norm", include_str!("patterns/batch_norm.txt")),
    ])
});

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    let (shape, dtype) = (m.ty(y).shape.clone(), m.ty(y).dtype);
    let [_, channels, ..] = shape.as_slice() else { return Err("there are no channels".into()) };
    let is_exact = m.forms().target.rounds_once;
    let is_small = matches!(dtype, DType::F16 | DType::BF16);
    if !(matches!(dtype, DType::F32 | DType::F64) || is_exact && is_small) {
        return Err("the type cannot represent the number".into());
    }
    // With an `Add` behind, that is the root.
    if !m.root().is("Add") && is_followed_by_bias(m, y) {
        return Err("a bias follows".into());
    }
    let spellings = SPELLINGS.as_ref().map_err(|_| "the patterns cannot be read")?;
    let mut likely = spellings.iter().filter(|spelling| {
        let pattern = &spelling.pattern;
        m.root().is(pattern.op) && matcher::may_be(m.graph(), m.root(), pattern)
    });
    let found = likely.find_map(|spelling| {
        Some((spelling, matcher::find_given(m.graph(), m.id(), spelling, Vec::new(), None)?))
    });
    let (spelling, finding) = found.ok_or("it is spelled differently")?;
    let nodes: Vec<NodeId> = finding.nodes.iter().map(|(id, _)| *id).collect();
    let mut found = Found::new(m, spelling, finding);
    check(&found, &nodes, channels)?;

    for (name, number) in [("one", 1.0), ("zero", 0.0)] {
        if found.has(name) {
            let size = channels.as_known().ok_or("the number of channels is not known")?;
            fill(&mut found, name, &[size], dtype, number)?;
        }
    }
    for name in ["scale", "bias", "mean", "variance"] {
        if let Some(value) = found.value(name) {
            let value = vector(found.m, value, channels)?;
            found.set_value(name, value);
        }
    }
    Ok(vec![found.replacement()?])
}

/// Checks that a normalisation was found whose nodes nothing else needs.
fn check(found: &Found<'_, '_>, nodes: &[NodeId], channels: &Dim) -> Result<(), Skip> {
    let m = &*found.m;
    let (y, shape) = (m.result()?, found.shape()?);
    let x = found.value("x").ok_or("there is no operand")?;
    if m.ty(x).shape != shape {
        return Err("the input is broadcast".into());
    }
    for node in nodes.iter().filter(|id| **id != m.id()).map(|id| m.graph().node(*id)) {
        let is_whole = node.outputs.iter().any(|value| m.ty(*value).shape == shape);
        let is_product = node.is("Mul") || node.is("Div");
        if node.is("Cast") {
            return Err("the type changes on the way".into());
        }
        if is_whole && is_product && !node.outputs.iter().all(|value| m.is_used_once(*value)) {
            return Err("a product has other readers".into());
        }
    }
    for name in ["mean", "variance", "scale", "bias"] {
        let Some((value, placement)) = found.placed(name) else { continue };
        let ty = m.ty(value);
        let is_second = *channels == Dim::Known(1) || placement.only_axis(&ty.shape) == Some(1);
        if !has_channels(m, value, channels) || !is_second || ty.dtype != m.ty(y).dtype {
            return Err("an operand is not one number for each channel".into());
        }
        if !is_given(m, value) {
            return Err("the statistics are computed in the model".into());
        }
    }
    let (Some(mean), Some(variance), Some(epsilon)) =
        (found.value("mean"), found.value("variance"), found.number("epsilon"))
    else {
        return Err("there are no statistics".into());
    };
    // The attribute has single precision.
    #[expect(clippy::cast_possible_truncation, reason = "checked by the comparison")]
    let single = epsilon as f32;
    if m.ty(y).dtype != DType::F32 && f64::from(single) != epsilon {
        return Err("the epsilon has too many digits".into());
    }
    let mut centered = nodes.iter().map(|id| m.graph().node(*id));
    let is_centered_first = centered.any(|node| node.is("Sub") && node.input(0) == Some(x));
    if is_centered_first && cancels(m, mean, variance, single) {
        return Err("a mean is large beside the deviation".into());
    }
    Ok(())
}

/// The largest mean of a channel, in standard deviations. The runtime computes `x * a + b`, which loses as
/// many units in the last place.
const MOST_DEVIATIONS: f64 = 128.0;

/// Returns `true` if a mean is known to be so large that subtracting it last would cause
/// cancellation.
fn cancels(m: &Match<'_>, mean: ValueId, variance: ValueId, epsilon: f32) -> bool {
    let numbers =
        |value| m.constant(source_of(m.graph(), value, Node::is_reshape)).and_then(Tensor::to_f64s);
    let (Some(means), Some(variances)) = (numbers(mean), numbers(variance)) else { return false };
    let deviation = |variance: f64| (variance + f64::from(epsilon)).sqrt();
    let mut pairs = means.iter().zip(variances.iter().cycle());
    pairs.any(|(mean, variance)| mean.abs() > MOST_DEVIATIONS * deviation(*variance))
}

/// Returns `true` if `value` has one element per channel, and other axes only of size one.
fn has_channels(m: &Match<'_>, value: ValueId, channels: &Dim) -> bool {
    let one = Dim::Known(1);
    let whole = m.ty(value).shape.iter().filter(|dim| **dim != one);
    whole.eq([channels].into_iter().filter(|dim| **dim != one))
}

/// The number of nodes that are examined to find the sources of a statistic.
const REACH: usize = 32;

/// Returns `true` if `value` does not depend on the normalised operand: it is a constant or an input of its
/// block, or computed from constants. Inputs may only be reshaped and cast, because further operators on
/// them may be part of the normalisation.
fn is_given(m: &Match<'_>, value: ValueId) -> bool {
    is_computed_of_constants(m.graph(), value, |_| {}) || {
        let moves = |node: &Node| is_spread(node.operator()) || node.is("Cast");
        m.graph().producer(source_of(m.graph(), value, moves)).is_none()
    }
}

/// Returns `true` if `value` is computed from constants alone, by a few nodes. Calls `see` for each of them.
pub(crate) fn is_computed_of_constants(
    graph: &Graph,
    value: ValueId,
    mut see: impl FnMut(&Node),
) -> bool {
    let (mut values, mut looks) = (vec![value], 0);
    while let Some(value) = values.pop() {
        if graph.tensor(value).is_some() {
            continue;
        }
        let Some(id) = graph.producer(value) else { return false };
        let node = graph.node(id);
        see(node);
        looks += 1;
        if looks > REACH || node.inputs.is_empty() || node.blocks().next().is_some() {
            return false;
        }
        values.extend(node.inputs.iter().flatten());
    }
    true
}

/// Returns `true` if the only consumer of `y` scales or shifts its channels.
fn is_followed_by_bias(m: &Match<'_>, y: ValueId) -> bool {
    let shape = &m.ty(y).shape;
    let (Some(reader), Some(channels)) = (m.graph().only_reader(y), shape.get(1)) else {
        return false;
    };
    let other = reader.inputs.iter().flatten().find(|v| **v != y);
    // Another factor may follow.
    matches!(reader.op.name, "Mul" | "Div" | "Add")
        && other.is_some_and(|v| is_of_channels(m, *v, shape.len(), 1, channels))
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::{REACH, REWRITE, is_computed_of_constants};
    use crate::testing::{rewrites_to, rewritten, stays};

    #[test]
    fn few_nodes_are_searched_for_constants() {
        for (count, expected) in [(REACH, true), (REACH + 1, false), (REACH + 2, false)] {
            let nodes: String = (0..count).map(|i| format!("n{} = Neg (n{i}) ", i + 1)).collect();
            let text =
                format!("g () => (float[2] n{count}) <float[2] n0 = {{1, 2}}> {{ {nodes} }}");
            let graph = crate::testing::graph(&text, &mut Origins::default());
            let result = graph.block(onnx::Graph::MAIN).outputs()[0];
            let mut seen = 0;
            assert_eq!(is_computed_of_constants(&graph, result, |_| seen += 1), expected);
            assert_eq!(seen, count.min(REACH + 1));
        }
    }

    fn text(body: &str) -> String {
        format!(
            "g (float[B,2,4,4] x) => (float[B,2,4,4] y)
            <float[2] m = {{1, 2}}, float[2] v = {{3, 4}}, float[2] s = {{5, 6}}, float[2] b = {{7, 8}}> {{
                eps = Constant <value_float = 0.001> ()
                k = Constant <value_ints = [2, 1, 1]> ()
                o = Constant <value_ints = [1, 2, 1, 1]> ()
                mean = Reshape (m, k)
                scale = Reshape (s, o)
                bias = Reshape (b, k)
                {body}
            }}"
        )
    }

    const SPELLINGS: &[&str] = &[
        // Flax.
        "c = Sub (x, mean) w = Reshape (v, o) e = Add (w, eps) d = Sqrt (e) r = Reciprocal (d)
         f = Mul (r, scale) p = Mul (c, f) y = Add (p, bias)",
        // Haiku.
        "w = Reshape (v, k) e = Add (w, eps) d = Sqrt (e) r = Reciprocal (d)
         f = Mul (scale, r) c = Sub (x, mean) p = Mul (c, f) y = Add (bias, p)",
        // Equinox, and a hand-written spelling.
        "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k)
         q = Div (c, w) p = Mul (scale, q) y = Add (p, bias)",
        "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k)
         f = Div (scale, w) p = Mul (f, c) y = Add (p, bias)",
        // A hand-written spelling.
        "w = Reshape (v, k) e = Add (w, eps) d = Sqrt (e) f = Div (scale, d)
         p = Mul (x, f) g = Mul (mean, f) i = Sub (bias, g) y = Add (p, i)",
        "n = Constant <value_float = -0.5> () w = Reshape (v, k) e = Add (w, eps) r = Pow (e, n)
         c = Sub (x, mean) p = Mul (c, scale) q = Mul (p, r) y = Add (q, bias)",
    ];

    /// A norm without a scale is recognised, and the product with `across` remains.
    #[test]
    fn a_scale_along_another_axis_remains_a_product() {
        let norm = "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k)
            q = Div (c, w) p = Mul (q, across) y = Add (p, bias)";
        let norm = text(norm).replace("scale = Reshape (s, o)", "");
        // As many elements as channels, and more elements than the only channel.
        let square = norm.replace("4,4]", "4,2]").replace("float[2] s", "float[2] across");
        let rest = norm.split_once("> {").unwrap().1.replace("[2, 1, 1]", "[1, 1, 1]");
        let single = format!(
            "g (float[B,1,4,4] x) => (float[B,1,4,4] y)
            <float[1] m = {{1}}, float[1] v = {{3}}, float[4] across = {{5, 6, 7, 8}}, float[1] b = {{7}}> {{{rest}"
        );
        for norm in [square, single] {
            let found = rewritten(&REWRITE, &norm);
            assert!(found.contains("p = Mul (q, across)"), "{found}");
        }
    }

    #[test]
    fn a_scalar_addend_is_not_a_bias() {
        let rest = |op: &str| format!("zero = Constant <value_float = 0.0> () y = {op} (p, zero)");
        for op in ["Add", "Mul"] {
            rewrites_to(
                &REWRITE,
                &text(&format!(
                    "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k)
                     q = Div (c, w) p = Mul (scale, q) {}",
                    rest(op)
                ))
                .replace("bias = Reshape (b, k)", ""),
                &format!(
                    "g (float[B,2,4,4] x) => (float[B,2,4,4] y)
                    <float[2] m = {{1, 2}}, float[2] v = {{3, 4}}, float[2] s = {{5, 6}}, float[2] b = {{7, 8}}> {{
                        none = Constant <value_floats = [0.0, 0.0]> ()
                        p = BatchNormalization <epsilon = 0.001> (x, s, none, m, v)
                        {}
                    }}",
                    rest(op)
                ),
            );
        }
    }

    #[test]
    fn statistics_may_be_computed_from_parameters() {
        let statistics = "n = Constant <value_float = 0.5> () u = Div (m, n) t = Reshape (u, k)";
        let rest =
            "e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) q = Div (c, w) p = Mul (scale, q)";
        rewrites_to(
            &REWRITE,
            &text(&format!("{statistics} c = Sub (x, t) {rest} y = Add (p, bias)"))
                .replace("mean = Reshape (m, k)", ""),
            "g (float[B,2,4,4] x) => (float[B,2,4,4] y)
            <float[2] m = {1, 2}, float[2] v = {3, 4}, float[2] s = {5, 6}, float[2] b = {7, 8}> {
                n = Constant <value_float = 0.5> ()
                u = Div (m, n)
                y = BatchNormalization <epsilon = 0.001> (x, s, b, u, v)
            }",
        );
    }

    #[test]
    fn all_spellings_become_one_node() {
        for spelling in SPELLINGS {
            rewrites_to(
                &REWRITE,
                &text(spelling),
                "g (float[B,2,4,4] x) => (float[B,2,4,4] y)
                <float[2] m = {1, 2}, float[2] v = {3, 4}, float[2] s = {5, 6}, float[2] b = {7, 8}> {
                    y = BatchNormalization <epsilon = 0.001> (x, s, b, m, v)
                }",
            );
        }
    }

    /// The spelling of Keras for channels that are last.
    #[test]
    fn the_mean_may_be_subtracted_last() {
        let parameters =
            "float[2] m = {1, 2}, float[2] v = {3, 4}, float[2] s = {5, 6}, float[2] b = {7, 8}";
        rewrites_to(
            &REWRITE,
            &format!(
                "g (float[B,2,4,4] x) => (float[B,2,4,4] y) <{parameters}> {{
                    eps = Constant <value_float = 0.001> ()
                    last = Constant <value_ints = [1, 1, 1, 2]> ()
                    second = Constant <value_ints = [2, 1, 1]> ()
                    w = Reshape (v, last) e = Add (w, eps) d = Sqrt (e) r = Reciprocal (d)
                    t = Reshape (s, last) f = Mul (r, t)
                    a = Reshape (m, last) n = Neg (a) g = Mul (n, f)
                    h = Reshape (b, last) i = Add (g, h)
                    j = Reshape (f, second) p = Mul (x, j) q = Reshape (i, second) y = Add (p, q)
                }}"
            ),
            &format!(
                "g (float[B,2,4,4] x) => (float[B,2,4,4] y) <{parameters}> {{
                    y = BatchNormalization <epsilon = 0.001> (x, s, b, m, v)
                }}"
            ),
        );
    }

    #[test]
    fn scale_and_bias_may_be_missing() {
        rewrites_to(
            &REWRITE,
            "g (float[B,2,4,4] x) => (float[B,2,4,4] y) <float[2] m = {1, 2}, float[2] v = {3, 4}> {
                eps = Constant <value_float = 0.001> ()
                k = Constant <value_ints = [2, 1, 1]> ()
                mean = Reshape (m, k) c = Sub (x, mean)
                e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k)
                z = Div (c, w) y = Relu (z)
            }",
            "g (float[B,2,4,4] x) => (float[B,2,4,4] y) <float[2] m = {1, 2}, float[2] v = {3, 4}> {
                s = Constant <value_floats: floats = [1, 1]> ()
                b = Constant <value_floats: floats = [0, 0]> ()
                z = BatchNormalization <epsilon = 0.001> (x, s, b, m, v)
                y = Relu (z)
            }",
        );
    }

    #[test]
    fn other_arithmetic_is_unchanged() {
        for body in [
            // Statistics of the batch itself.
            "axes = Constant <value_ints = [0, 2, 3]> () n = ReduceMean (x, axes) c = Sub (x, n)
             e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) q = Div (c, w) p = Mul (scale, q)
             y = Add (p, bias)",
            // Two factors.
            "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) q = Div (c, w)
             p = Mul (scale, q) t = Mul (p, mean) y = Add (t, bias)",
            // The product with a deviation.
            "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) q = Mul (c, w)
             y = Add (q, bias)",
            // The mean is added, or scaled by another factor.
            "e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) f = Div (scale, w) p = Mul (x, f)
             g = Mul (mean, f) i = Add (g, bias) y = Add (p, i)",
            "e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) f = Div (scale, w) p = Mul (x, f)
             g = Mul (mean, scale) i = Sub (bias, g) y = Add (p, i)",
            // Another axis.
            "t = Constant <value = float[4] {1, 2, 3, 4}> () c = Sub (x, t) e = Add (eps, v)
             d = Sqrt (e) w = Reshape (d, k) q = Div (c, w) y = Add (q, bias)",
        ] {
            stays(&REWRITE, &text(body));
        }
    }

    /// A norm that subtracts the mean first.
    const FLAX: &str = SPELLINGS[0];

    #[test]
    fn large_means_are_subtracted_first() {
        let found = |mean: &str, variance: &str, spelling: &str| {
            let known = format!(
                "m = Constant <value = float[2] {{1, {mean}}}> ()
                v = Constant <value = float[2] {{3, {variance}}}> () eps ="
            );
            let text = text(spelling)
                .replace("float[2] m = {1, 2}, float[2] v = {3, 4}, ", "")
                .replacen("eps =", &known, 1);
            rewritten(&REWRITE, &text).contains("BatchNormalization")
        };
        // Two and 0.0447 are the deviations.
        assert!(found("200", "4", FLAX) && found("-200", "4", FLAX) && found("5", "0.001", FLAX));
        assert!(
            !found("300", "4", FLAX) && !found("-300", "4", FLAX) && !found("6", "0.001", FLAX)
        );
        // Keras subtracts the mean last anyway.
        assert!(found("300", "4", SPELLINGS[4]));
    }

    #[test]
    fn other_readers_need_products() {
        let read = |value: &str| {
            let results = "=> (float[B,2,4,4] y, float[B,2,4,4] z)";
            text(&format!("{} z = Exp ({value})", SPELLINGS[5]))
                .replace("=> (float[B,2,4,4] y)", results)
        };
        stays(&REWRITE, &read("p"));
        // The difference is computed for them, and the norm does not need it.
        assert!(rewritten(&REWRITE, &read("c")).contains("BatchNormalization"));
    }

    #[test]
    fn other_types_on_the_way_are_unchanged() {
        let cast = FLAX.replace(
            "c = Sub (x, mean)",
            "h = Cast <to = 10> (x) w2 = Cast <to = 1> (h) c = Sub (w2, mean)",
        );
        let text = text(&cast);
        let after = rewritten(&REWRITE, &text);
        assert!(
            after.contains("Cast")
                && !after.contains("BatchNormalization <epsilon: float = 0.001> (x"),
            "{after}"
        );
    }

    #[test]
    fn the_epsilon_has_single_precision() {
        let found = |epsilon: &str| {
            let text = text(FLAX)
                .replace("float[", "double[")
                .replace("<value_float = 0.001>", &format!("<value = double {{{epsilon}}}>"));
            rewritten(&REWRITE, &text).contains("BatchNormalization")
        };
        assert!(found("0.0009765625") && !found("0.001"));
    }

    #[test]
    fn statistics_that_inputs_hold_are_given() {
        let signature = "=> (float[B,2,4,4] y)
            <float[2] m = {1, 2}, float[2] v";
        let of_input = |nodes: &str| {
            let text = text(&format!("{nodes} {}", FLAX.replace("mean", "given")));
            let text = text.replace("mean = Reshape (m, k)", "");
            text.replace("float[B,2,4,4] x)", "float[B,2,4,4] x, float[2,1,1] i)")
                .replace(signature, "=> (float[B,2,4,4] y) <float[2] v")
        };
        assert!(rewritten(&REWRITE, &of_input("given = Identity (i)")).contains("Sub"));
        let reshaped = "s1 = Constant <value_ints = [1, 2, 1, 1]> () given = Reshape (i, s1)";
        assert!(rewritten(&REWRITE, &of_input(reshaped)).contains("BatchNormalization"));
        stays(&REWRITE, &of_input("given = Exp (i)"));
    }

    #[test]
    fn a_mean_along_another_axis_is_not_of_the_only_channel() {
        let norm = |mean: &str, shape: &str| {
            let text = format!(
                "g (float[B,1,4,4] x) => (float[B,1,4,4] y)
                <float[{mean}] m = {{1, 2, 3, 4}}, float[1] v = {{3}}, float[1] s = {{5}}, float[1] b = {{7}}> {{
                    eps = Constant <value_float = 0.001> ()
                    k = Constant <value_ints = [1, 1, 1]> ()
                    last = Constant <value_ints = [{shape}]> ()
                    mean = Reshape (m, last) scale = Reshape (s, k) bias = Reshape (b, k)
                    {FLAX} }}"
            );
            text.replace("Reshape (v, o)", "Reshape (v, k)")
        };
        let across = norm("4", "1, 1, 4");
        stays(&REWRITE, &across);
        let single = norm("1", "1, 1, 1").replace("{1, 2, 3, 4}", "{1}");
        assert!(rewritten(&REWRITE, &single).contains("BatchNormalization"));
    }
}
