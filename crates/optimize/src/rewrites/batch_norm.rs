//! `(x - mean) / sqrt(var + eps) * scale + bias` → `BatchNormalization`, where all four are given
//! and not computed from `x`: a normalisation at inference. They stay what they are, under their names.
//!
//! The factors may come in any order, as products, quotients and reciprocals; scale and bias may
//! be missing. The mean may be subtracted last, times all factors, as Keras does.

use onnx::operators::Operator;
use onnx::{Graph, Node, Producer, ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use super::channels::{is_of_channels, is_spread, vector};
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "batch_norm", roots: Roots::Named(&["Add", "Div", "Mul"]), try_at };

/// How many factors there may be.
const MOST: usize = 8;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    let (product, bias) = match m.root().op.name {
        "Add" => {
            let (a, b) = (m.operand(0)?, m.operand(1)?);
            let is_product = |v| m.producer(v, &["Div", "Mul"]).is_some() && m.is_used_once(v);
            if is_product(a) && m.ty(a).shape == m.ty(y).shape {
                (a, Some(b))
            } else if is_product(b) && m.ty(b).shape == m.ty(y).shape {
                (b, Some(a))
            } else {
                return Err("neither operand is a product".into());
            }
        }
        // With an `Add` behind, that is the root.
        _ if is_followed_by_bias(m, y) => return Err("a bias follows".into()),
        _ => (y, None),
    };
    let shape = m.ty(y).shape.clone();
    let [_, channels, ..] = shape.as_slice() else { return Err("there are no channels".into()) };
    let of_channels = |m: &Match<'_>, v| is_of_channels(m, v, shape.len(), 1, channels);
    if m.ty(y).dtype != DType::F32 && m.ty(y).dtype != DType::F64 {
        return Err("the type cannot represent the number".into());
    }

    let (value, mut factors) = factors(m, product, &shape, channels)?;
    if !bias.is_none_or(|bias| of_channels(m, bias)) {
        return Err("an operand is not one number for each channel".into());
    }
    let is_centered_first = m.producer(value, &["Sub"]).is_some();
    let (x, mean, bias) = if let Some(node) = m.producer(value, &["Sub"]) {
        let [Some(x), Some(mean)] = *node.inputs.as_slice() else {
            return Err("an operand is left out".into());
        };
        if !of_channels(m, mean) {
            return Err("an operand is not one number for each channel".into());
        }
        (x, mean, bias)
    } else {
        let bias = bias.ok_or("nothing is subtracted")?;
        let (mean, bias) = shift(m, bias, &factors)?;
        (value, mean, bias)
    };
    let at =
        factors.iter().position(|factor| factor.divides && deviation(m, factor.value).is_some());
    let at = at.ok_or("nothing is divided by a standard deviation")?;
    let (variance, epsilon) =
        deviation(m, factors.remove(at).value).ok_or("there is no standard deviation")?;
    let scale = match factors.as_slice() {
        [] => None,
        [Factor { value, divides: false }] => Some(*value),
        _ => return Err("there is more than one factor".into()),
    };
    // What they were put together to has the elements of each; its axes are where the channels are.
    let parts = [Some(mean), Some(variance), scale, bias];
    if !parts.into_iter().flatten().all(|v| has_channels(m, v, channels)) {
        return Err("an operand is not one number for each channel".into());
    }
    if !parts.into_iter().flatten().all(|v| is_given(m, v)) {
        return Err("the statistics are computed in the model".into());
    }
    if m.ty(x).shape != shape {
        return Err("the input is broadcast".into());
    }
    if is_centered_first && cancels(m, mean, variance, epsilon) {
        return Err("a mean is large beside the deviation".into());
    }

    let dtype = m.ty(y).dtype;
    let count = channels.as_known().and_then(|n| usize::try_from(n).ok());
    let filled = |m: &mut Match<'_>, number: f64| -> Result<ValueId, Skip> {
        let one = Tensor::scalar(dtype, number).ok_or("the type cannot represent the number")?;
        let count = count.ok_or("the number of channels is not known")?;
        let bytes = one.bytes().unwrap_or_default().repeat(count);
        let tensor = Tensor::new(dtype, &[count], std::sync::Arc::new(bytes));
        Ok(m.tensor(tensor.map_err(|_| "there are too many channels")?))
    };
    let scale = match scale {
        Some(scale) => vector(m, scale, channels)?,
        None => filled(m, 1.0)?,
    };
    let bias = match bias {
        Some(bias) => vector(m, bias, channels)?,
        None => filled(m, 0.0)?,
    };
    let mean = vector(m, mean, channels)?;
    let variance = vector(m, variance, channels)?;
    let operands = [x, scale, bias, mean, variance];
    Ok(vec![m.op("BatchNormalization", &operands, attrs! { epsilon: epsilon })?])
}

/// So many standard deviations from zero may the mean of a channel be: the runtime computes
/// `x * a + b`, which loses as many units in the last place.
const MOST_DEVIATIONS: f64 = 128.0;

/// Returns `true` if a mean is known to be so large that subtracting it last would cancel.
fn cancels(m: &Match<'_>, mean: ValueId, variance: ValueId, epsilon: f32) -> bool {
    let numbers = |value| m.constant(unshaped(m, value)).and_then(Tensor::to_f64s);
    let (Some(means), Some(variances)) = (numbers(mean), numbers(variance)) else { return false };
    let deviation = |variance: f64| (variance + f64::from(epsilon)).sqrt();
    let mut pairs = means.iter().zip(variances.iter().cycle());
    pairs.any(|(mean, variance)| mean.abs() > MOST_DEVIATIONS * deviation(*variance))
}

/// The mean and the bias of `bias - mean * factors`.
fn shift(
    m: &Match<'_>,
    value: ValueId,
    factors: &[Factor],
) -> Result<(ValueId, Option<ValueId>), Skip> {
    let value = unshaped(m, value);
    let operands = |node: &Node| Some((node.input(0)?, node.input(1)?));
    let is_product = |v: ValueId| m.producer(unshaped(m, v), &["Div", "Mul"]).is_some();
    let (product, bias, is_negative) =
        if let Some((a, b)) = m.producer(value, &["Add"]).and_then(operands) {
            let (product, bias) = if is_product(a) { (a, b) } else { (b, a) };
            (product, Some(bias), false)
        } else if let Some((bias, product)) = m.producer(value, &["Sub"]).and_then(operands) {
            (product, Some(bias), true)
        } else {
            (value, None, false)
        };
    let mut rest = Vec::new();
    split(m, Factor { value: unshaped(m, product), divides: false }, &mut rest)?;
    for factor in factors {
        let same = rest.iter().position(|other| other == factor);
        rest.remove(same.ok_or("what is added has other factors")?);
    }
    let [Factor { value: mean, divides: false }] = *rest.as_slice() else {
        return Err("what is added has other factors".into());
    };
    if is_negative {
        return Ok((mean, bias));
    }
    let negated = m.producer(mean, &["Neg"]).and_then(|node| node.input(0));
    Ok((negated.ok_or("the mean is not subtracted")?, bias))
}

/// What `value` is another shape of.
fn unshaped(m: &Match<'_>, value: ValueId) -> ValueId {
    let mut value = value;
    while let Some(node) = m.producer_with(value, Operator::is_reshape)
        && let Some(source) = node.input(0)
    {
        value = source;
    }
    value
}

/// A number that something is multiplied with or divided by.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Factor {
    value: ValueId,
    divides: bool,
}

/// What is multiplied and divided along the way to `product`, and what was there before: the first
/// value of the whole shape that is not a product itself.
fn factors(
    m: &Match<'_>,
    product: ValueId,
    shape: &[Dim],
    channels: &Dim,
) -> Result<(ValueId, Vec<Factor>), Skip> {
    let (mut value, mut factors) = (product, Vec::new());
    while let Some(node) = m.producer(value, &["Div", "Mul"]) {
        if value != product && !m.is_used_once(value) {
            return Err("a product has other readers".into());
        }
        let [Some(a), Some(b)] = *node.inputs.as_slice() else {
            return Err("an operand is left out".into());
        };
        let is_whole = |v| m.ty(v).shape == *shape;
        let divides = node.is("Div");
        let (next, factor) = match (is_whole(a), is_whole(b)) {
            (true, false) => (a, b),
            (false, true) if !divides => (b, a),
            _ => return Err("a factor is not one number for each channel".into()),
        };
        if !is_of_channels(m, factor, shape.len(), 1, channels) {
            return Err("a factor is not one number for each channel".into());
        }
        split(m, Factor { value: factor, divides }, &mut factors)?;
        value = next;
    }
    Ok((value, factors))
}

/// Takes a factor apart into those it is a product of.
fn split(m: &Match<'_>, factor: Factor, factors: &mut Vec<Factor>) -> Result<(), Skip> {
    let Factor { value, divides } = factor;
    if factors.len() >= MOST {
        return Err("there are too many factors".into());
    }
    let operands = |node: &Node| match *node.inputs.as_slice() {
        [Some(a), Some(b)] => Some((a, b)),
        _ => None,
    };
    if let Some(node) = m.producer(value, &["Reciprocal"]) {
        let value = node.input(0).ok_or("an operand is left out")?;
        return split(m, Factor { value, divides: !divides }, factors);
    }
    if let Some((a, b)) = m.producer(value, &["Mul"]).and_then(operands) {
        split(m, Factor { value: a, divides }, factors)?;
        return split(m, Factor { value: b, divides }, factors);
    }
    if let Some((a, b)) = m.producer(value, &["Div"]).and_then(operands) {
        // `1 / x` is a reciprocal.
        let is_one = m.constant(a).is_some_and(|one| one.splat() == Some(1.0));
        if !is_one {
            split(m, Factor { value: a, divides }, factors)?;
        }
        return split(m, Factor { value: b, divides: !divides }, factors);
    }
    if let Some(node) = m.producer_with(value, is_spread)
        && let Some(source) = node.input(0)
        && m.producer(source, &["Div", "Mul", "Reciprocal", "Sqrt"]).is_some()
    {
        return split(m, Factor { value: source, divides }, factors);
    }
    factors.push(Factor { value, divides });
    Ok(())
}

/// The variance and the epsilon of `sqrt(variance + epsilon)`.
fn deviation(m: &Match<'_>, value: ValueId) -> Option<(ValueId, f32)> {
    let sum = m.producer(value, &["Sqrt"])?.input(0)?;
    let node = m.producer(sum, &["Add"])?;
    let (a, b) = (node.input(0)?, node.input(1)?);
    let number = |v: ValueId| m.constant(v).filter(|c| c.len() == 1)?.splat();
    let (variance, epsilon) = match (number(a), number(b)) {
        (_, Some(epsilon)) => (a, epsilon),
        (Some(epsilon), None) => (b, epsilon),
        (None, None) => return None,
    };
    // The attribute has single precision.
    #[expect(clippy::cast_possible_truncation, reason = "checked by the comparison")]
    let single = epsilon as f32;
    let is_exact = f64::from(single) == epsilon;
    (is_exact || m.ty(value).dtype == DType::F32).then_some((variance, single))
}

/// Whether `value` has one element for each channel and otherwise axes of size one.
fn has_channels(m: &Match<'_>, value: ValueId, channels: &Dim) -> bool {
    let one = Dim::Known(1);
    let whole = m.ty(value).shape.iter().filter(|dim| **dim != one);
    whole.eq([channels].into_iter().filter(|dim| **dim != one))
}

/// How many nodes are examined to find out what a statistic is computed from.
const REACH: usize = 32;

/// Whether `value` is a constant or an input of its block, or computed from these: nothing of what is
/// normalised is in it. Inputs only get another shape: what else is done to them may be part of it.
fn is_given(m: &Match<'_>, value: ValueId) -> bool {
    is_computed_of_constants(m.graph(), value, |_| {}) || {
        let mut value = value;
        while let Some(node) = m.producer_with(value, |op| is_spread(op) || op.name == "Cast")
            && let Some(source) = node.input(0)
        {
            value = source;
        }
        !matches!(m.graph().value(value).producer(), Producer::Node(..))
    }
}

/// Whether everything that `value` is computed from, a few nodes back, is a constant. The nodes that
/// compute it are shown to `see`.
pub(crate) fn is_computed_of_constants(
    graph: &Graph,
    value: ValueId,
    mut see: impl FnMut(&Node),
) -> bool {
    let (mut values, mut looks) = (vec![value], 0);
    while let Some(value) = values.pop() {
        if graph.constant(value).is_some() {
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

/// Whether `y` is read only by a node that adds something of its channels.
fn is_followed_by_bias(m: &Match<'_>, y: ValueId) -> bool {
    let mut uses = m.graph().value(y).uses();
    let (Some(onnx::Use::Operand(id, _)), None) = (uses.next(), uses.next()) else { return false };
    let reader = m.graph().node(id);
    let shape = &m.ty(y).shape;
    let Some(channels) = shape.get(1) else { return false };
    match reader.op.name {
        // A factor that is yet to come.
        "Mul" | "Div" | "Add" => {
            let mut others = reader.inputs.iter().flatten().filter(|v| **v != y);
            others.next().is_some_and(|v| is_of_channels(m, *v, shape.len(), 1, channels))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

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
        // Equinox, and by hand.
        "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k)
         q = Div (c, w) p = Mul (scale, q) y = Add (p, bias)",
        "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k)
         f = Div (scale, w) p = Mul (f, c) y = Add (p, bias)",
        // By hand.
        "w = Reshape (v, k) e = Add (w, eps) d = Sqrt (e) f = Div (scale, d)
         p = Mul (x, f) g = Mul (mean, f) i = Sub (bias, g) y = Add (p, i)",
    ];

    #[test]
    fn a_number_that_follows_is_no_bias() {
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
    fn statistics_may_be_computed_of_parameters() {
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
    fn spellings_are_one() {
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

    /// Keras's, which was written for channels that are last.
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
    fn other_arithmetic_stays() {
        for body in [
            // Statistics of the batch itself.
            "axes = Constant <value_ints = [0, 2, 3]> () n = ReduceMean (x, axes) c = Sub (x, n)
             e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) q = Div (c, w) p = Mul (scale, q)
             y = Add (p, bias)",
            // Two factors.
            "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) q = Div (c, w)
             p = Mul (scale, q) t = Mul (p, mean) y = Add (t, bias)",
            // A deviation that is multiplied.
            "c = Sub (x, mean) e = Add (eps, v) d = Sqrt (e) w = Reshape (d, k) q = Mul (c, w)
             y = Add (q, bias)",
            // The mean is added, or scaled by something else.
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
}
