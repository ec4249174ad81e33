//! `BatchNormalization(Conv(x, w))`, also between casts from half precision to float32 and back →
//! `Conv(x, w', b')`, if the target accumulates in float32 and all parameters are known.
//!
//! Frameworks keep statistics in float32, and kernels for half precision read statistics in half
//! precision only. The scaled weights are rounded instead of the weights, and the bias instead of the
//! result of the convolution. So the result is about as exact. Runtimes fold other batch norms
//! themselves, but then the target's spelling of convolutions with a bias comes too early.

use std::sync::Arc;

use onnx::{Node, ValueId};
use tensor::{DType, Tensor};

use crate::rewrite::operands;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::of("fold_batch_norm", &["BatchNormalization", "Cast"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let dtype = m.ty(m.result()?).dtype;
    if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32) || !m.forms().target.rounds_once {
        return Err("the target rounds more often".into());
    }
    let (norm, product) = match m.root().is("BatchNormalization") {
        true => (m.root().clone(), m.operand(0)?),
        false => {
            let norm = only_producer(m, m.operand(0)?, "BatchNormalization")?;
            let [product] = operands(&norm)?;
            let widened = only_producer(m, product, "Cast")?;
            let [product] = operands(&widened)?;
            (norm, product)
        }
    };
    let conv = only_producer(m, product, "Conv")?;
    Skip::when(m.ty(product).dtype != dtype, "the convolution has another type")?;
    Skip::when(norm.outputs.len() != 1, "the norm has several results")?;
    let [_, kernel] = operands(&conv)?;
    let [_, scale, bias, mean, variance] = operands(&norm)?;
    let (scales, offsets) = (numbers(m, scale)?, numbers(m, bias)?);
    let (means, variances) = (numbers(m, mean)?, numbers(m, variance)?);
    let biases = match conv.input(2) {
        Some(bias) => numbers(m, bias)?,
        None => vec![0.0; scales.len()],
    };
    let epsilon = norm.float("epsilon", 1e-5);
    let factors: Vec<f64> =
        scales.iter().zip(&variances).map(|(s, v)| s / (v + epsilon).sqrt()).collect();
    let mut weights = numbers(m, kernel)?;
    let per_channel = weights.len() / factors.len().max(1);
    for (channel, factor) in weights.chunks_mut(per_channel.max(1)).zip(&factors) {
        channel.iter_mut().for_each(|weight| *weight *= factor);
    }
    let centers: Vec<f64> =
        means.iter().zip(&biases).zip(&factors).map(|((mean, b), f)| (mean - b) * f).collect();
    let sums: Vec<f64> = offsets.iter().zip(&centers).map(|(offset, c)| offset - c).collect();
    // The convolution scatters around the centers, and the norm around the offsets, by the scales.
    // Both were rounded. Now the bias and the norm are.
    let [sum, center, offset, scale] = [&sums, &centers, &offsets, &scales].map(|v| length(v));
    let before = center.hypot(scale).hypot(offset.hypot(scale));
    if sum.hypot(offset).hypot(scale) > MOST_ERROR * before {
        return Err("the rounded bias is less exact than the rounded convolution".into());
    }

    let shape = m.graph().tensor(kernel).map(|tensor| tensor.shape().to_vec());
    let weights = rounded(&weights, &shape.ok_or(UNKNOWN)?, dtype, per_channel)?;
    let sums = rounded(&sums, &[factors.len()], dtype, factors.len())?;
    let mut inputs = conv.inputs.clone();
    inputs.truncate(2);
    inputs[1] = Some(parameter(m, kernel, weights));
    inputs.push(Some(parameter(m, bias, sums)));
    Ok(vec![m.like(&conv, inputs)?])
}

/// The largest error, compared with that of separate operators.
const MOST_ERROR: f64 = 1.2;

const UNKNOWN: &str = "a parameter is not known";

/// Returns the producer of a value that nothing else reads.
fn only_producer(m: &Match<'_>, value: ValueId, op: &str) -> Result<Node, Skip> {
    let node = m.producer(value, &[op]).ok_or("it is not a rounded batch norm of a convolution")?;
    Skip::when(!m.is_used_once(value), "an operand has other readers")?;
    Skip::when(node.block() != m.root().block(), "an operand is computed elsewhere")?;
    Ok(node.clone())
}

/// Returns the elements of a parameter or constant, as they were before they were rounded: they are
/// multiplied and rounded again.
fn numbers(m: &Match<'_>, value: ValueId) -> Result<Vec<f64>, Skip> {
    let tensor = m.graph().tensor(value).ok_or(UNKNOWN)?;
    let exact = tensor.cast_from();
    Ok(exact.as_ref().unwrap_or(tensor).to_f64s().ok_or(UNKNOWN)?)
}

/// Returns a tensor in the given type. The error of each group of `size` elements is at most that of
/// rounding numbers of usual magnitude: fails if they overflow, or most of them underflow.
fn rounded(values: &[f64], shape: &[usize], dtype: DType, size: usize) -> Result<Tensor, Skip> {
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the type on purpose")]
    let bytes: Vec<u8> = values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect();
    let wide = Tensor::new(DType::F32, shape, Arc::new(bytes)).map_err(|_| UNKNOWN)?;
    let tensor = wide.cast(dtype).map_err(|_| UNKNOWN)?;
    let found = tensor.to_f64s().ok_or(UNKNOWN)?;
    let (_, fraction) = dtype.float_fields().ok_or(UNKNOWN)?;
    let unit = (-1.0 - f64::from(fraction)).exp2();
    let mut groups = values.chunks(size.max(1)).zip(found.chunks(size.max(1)));
    let is_close = groups.all(|(exact, found)| {
        let errors: Vec<f64> = exact.iter().zip(found).map(|(one, other)| one - other).collect();
        length(&errors) <= unit * length(exact)
    });
    if is_close { Ok(tensor) } else { Err("the parameters do not fit the type".into()) }
}

/// Returns the Euclidean norm.
fn length(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Adds a tensor that is named after the parameter that it was computed from.
fn parameter(m: &mut Match<'_>, source: ValueId, tensor: Tensor) -> ValueId {
    match m.graph().parameter(source) {
        Some(_) => {
            let name = format!("{}/BatchNormalization", m.graph().value(source).name);
            m.named(name, tensor)
        }
        None => m.tensor(tensor),
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{edited_with, run};
    use crate::{Forms, Options, Target};

    fn after(text: &str, target: Target) -> String {
        let options = Options { forms: Forms { target, ..Forms::auto(23) }, ..Options::default() };
        edited_with(&options, text, |edit| run(edit, [&REWRITE]).unwrap()).0
    }

    fn rounding_once() -> Target {
        Target::all().find(|target| target.rounds_once).unwrap()
    }

    fn text(scale: &str) -> String {
        format!(
            "g (float16[1,1,4,4] x) => (float16[1,2,4,4] y)
            <float16[2,1,1,1] w = {{0.5, 3.0}}, float[2] s = {{{scale}}}, float[2] b = {{7, 0}},
             float[2] mean = {{1, 2}}, float[2] v = {{3, 15}}> {{
                c = Conv (x, w) f = Cast <to = 1> (c)
                n = BatchNormalization <epsilon = 1.0> (f, s, b, mean, v)
                y = Cast <to = 10> (n)
            }}"
        )
    }

    #[test]
    fn parameters_in_float32_are_folded_into_the_convolution() {
        let found = after(&text("4, 8"), rounding_once());
        assert!(!found.contains("= Cast") && !found.contains("= BatchNormalization"), "{found}");
        assert!(found.contains("\"w/BatchNormalization\" = {1.0, 6.0}"), "{found}");
        assert!(found.contains("\"b/BatchNormalization\" = {5.0, -4.0}"), "{found}");
    }

    #[test]
    fn batch_norms_in_the_type_of_the_convolution_are_folded() {
        for dtype in ["float", "float16"] {
            let text = format!(
                "g ({dtype}[1,2,4,4] x) => ({dtype}[1,2,4,4] y)
                <{dtype}[2,2,1,1] w = {{0.5, 1.5, 3.0, 1.0}}, {dtype}[2] c = {{1.0, -1.0}}, {dtype}[2] s = {{4.0, 8.0}},
                 {dtype}[2] b = {{7.0, 0.0}}, {dtype}[2] mean = {{1.0, 2.0}}, {dtype}[2] v = {{3.0, 15.0}}> {{
                    p = Conv (x, w, c) y = BatchNormalization <epsilon = 1.0> (p, s, b, mean, v)
                }}"
            );
            let found = after(&text, rounding_once());
            assert!(found.contains("\"w/BatchNormalization\" = {1.0, 3.0, 6.0, 2.0}"), "{found}");
            assert!(found.contains("\"b/BatchNormalization\" = {7.0, -6.0}"), "{found}");
            assert!(after(&text, Target::default()).contains("BatchNormalization <"));
        }
    }

    #[test]
    fn parameters_that_do_not_fit_the_type_stay() {
        for scale in ["4, 1e6", "4, 1e-7", "4, nan"] {
            assert!(
                after(&text(scale), rounding_once()).contains("BatchNormalization <"),
                "{scale}"
            );
        }
    }

    #[test]
    fn factors_below_the_type_stay() {
        for (dtype, scale) in [("float16", "1e-7"), ("bfloat16", "1e-40"), ("float", "1e-44")] {
            let text = format!(
                "g ({dtype}[1,1,4,4] x) => ({dtype}[1,1,4,4] y)
                <{dtype}[1,1,1,1] w = {{0.7}}, float[1] s = {{{scale}}}, float[1] b = {{0}},
                 float[1] mean = {{0}}, float[1] v = {{3}}> {{
                    c = Conv (x, w) f = Cast <to = 1> (c)
                    n = BatchNormalization <epsilon = 1.0> (f, s, b, mean, v)
                    y = Cast <to = {}> (n)
                }}",
                match dtype {
                    "float16" => 10,
                    "bfloat16" => 16,
                    _ => 1,
                }
            );
            assert!(after(&text, rounding_once()).contains("BatchNormalization <"), "{dtype}");
        }
    }

    #[test]
    fn other_targets_normalise_in_float32() {
        assert!(after(&text("4, 8"), Target::default()).contains("BatchNormalization <"));
    }

    #[test]
    fn intermediate_values_with_other_readers_stay() {
        for value in ["float16[1,2,4,4] c", "float[1,2,4,4] f", "float[1,2,4,4] n"] {
            let text = text("4, 8").replace("=> (", &format!("=> ({value}, "));
            assert!(after(&text, rounding_once()).contains("BatchNormalization <"), "{value}");
        }
    }
}
