//! The weights of a recurrent layer, as tensors in ONNX's layout.

use std::ops::Range;
use std::sync::Arc;

use onnx::fold::{self, Exactness, Operation};
use onnx::{Graph, Node, ValueId};
use tensor::{DType, Tensor};

use super::affine::{Bias, Weight};

/// The weights of several gates, one gate after the other.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) numbers: Vec<f64>,
    /// The parameters from which the weights are computed.
    pub(super) parameters: Vec<ValueId>,
}

impl Rows {
    /// Appends the weights of a gate: one row for each of the `columns`.
    pub(super) fn push(
        &mut self,
        graph: &Graph,
        weight: &Weight,
        columns: &Range<usize>,
        sign: f64,
    ) -> Option<()> {
        let tensor = self.tensor(graph, weight.matrix)?;
        let [_, width] = *tensor.shape() else { return None };
        let numbers = tensor.to_f64s()?;
        for column in columns.clone() {
            for row in weight.rows.clone() {
                let at =
                    if weight.is_transposed { column * width + row } else { row * width + column };
                self.numbers.push(sign * numbers.get(at)?);
            }
        }
        Some(())
    }

    /// Appends the sum of the biases of a gate with `units` units.
    pub(super) fn push_biases(
        &mut self,
        graph: &Graph,
        biases: &[Bias],
        units: usize,
        sign: f64,
    ) -> Option<()> {
        let mut sum = vec![0.0; units];
        for bias in biases {
            let numbers = self.tensor(graph, bias.value)?.to_f64s()?;
            let columns = bias.columns.clone().unwrap_or(0..0);
            for (i, total) in sum.iter_mut().enumerate() {
                *total += sign
                    * numbers.get(if bias.columns.is_some() { columns.start + i } else { 0 })?;
            }
        }
        self.numbers.extend(sum);
        Some(())
    }

    /// Returns `true` if there is a parameter or a non-zero number.
    pub(super) fn is_something(&self) -> bool {
        !self.parameters.is_empty() || self.numbers.iter().any(|number| *number != 0.0)
    }

    /// Concatenates these numbers with `others`.
    pub(super) fn followed_by(mut self, others: Self) -> Self {
        self.numbers.extend(others.numbers);
        for parameter in others.parameters {
            if !self.parameters.contains(&parameter) {
                self.parameters.push(parameter);
            }
        }
        self
    }

    /// Appends one of `others` to each row of `width` numbers. The list of parameters is unchanged.
    pub(super) fn beside(mut self, others: &[f64], width: usize) -> Self {
        let rows = self.numbers.chunks_exact(width).zip(others);
        self.numbers = rows.flat_map(|(row, last)| row.iter().chain([last])).copied().collect();
        self
    }

    fn tensor(&mut self, graph: &Graph, value: ValueId) -> Option<Tensor> {
        evaluate(graph, value, &mut self.parameters)
    }

    /// Converts the numbers to a tensor.
    pub(super) fn into_tensor(self, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        rounded(&self.numbers, dtype, shape)
    }

    /// Returns a name for weights that are computed from the parameters.
    pub(super) fn name(&self, graph: &Graph, what: &str) -> Option<String> {
        let names: Vec<&str> =
            self.parameters.iter().map(|value| graph.value(*value).name.as_str()).collect();
        name_of(&names, what)
    }
}

/// Returns a name for `what`, computed from parameters with the given names: the common module,
/// followed by `what`.
pub(super) fn name_of(names: &[&str], what: &str) -> Option<String> {
    let (first, others) = names.split_first()?;
    let shared = |name: &&str| first.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let same = others.iter().map(shared).min().unwrap_or(first.len());
    let end = first.get(..same)?.rfind(['.', '/']);
    Some(end.map_or_else(|| what.to_owned(), |end| format!("{}.{what}", &first[..end])))
}

/// Returns a tensor of the floats nearest to these numbers.
fn rounded(numbers: &[f64], dtype: DType, shape: &[usize]) -> Option<Tensor> {
    let mut bytes = Vec::with_capacity(dtype.byte_len(numbers.len()));
    for number in numbers {
        bytes.extend_from_slice(&Tensor::scalar(dtype, *number)?.bytes()?);
    }
    Tensor::new(dtype, shape, Arc::new(bytes)).ok()
}

/// Evaluates `value` if it is the same in every run, and collects the parameters that it is
/// computed from.
pub(super) fn evaluate(
    graph: &Graph,
    value: ValueId,
    parameters: &mut Vec<ValueId>,
) -> Option<Tensor> {
    if let Some(tensor) = graph.tensor(value) {
        if graph.parameter(value).is_some() && !parameters.contains(&value) {
            parameters.push(value);
        }
        return Some(tensor.clone());
    }
    let node = graph.node(graph.producer(value)?);
    if node.is("Split") {
        return split(graph, node, value, parameters);
    }
    let ty = graph.ty(value);
    if node.is("Cast") && ty.dtype.is_float() {
        let wide = evaluate(graph, node.input(0)?, parameters)?;
        return rounded(&wide.to_f64s()?, ty.dtype, wide.shape());
    }
    let mut operands = Vec::new();
    for input in &node.inputs {
        operands.push(match input {
            Some(operand) => Some(evaluate(graph, *operand, parameters)?),
            None => None,
        });
    }
    let inputs: Vec<_> = operands.iter().map(Option::as_ref).collect();
    let shape = ty.static_shape()?;
    let shape: Option<Vec<usize>> = shape.into_iter().map(|n| usize::try_from(n).ok()).collect();
    let exactness = Exactness::EachBit;
    let (dtype, shape) = (ty.dtype, shape?);
    let operation = Operation { node, inputs: &inputs, dtype, shape: &shape, result: 0, exactness };
    (node.op.domain.is_empty() && node.outputs.len() == 1)
        .then(|| fold::evaluate(&operation).ok())
        .flatten()
}

fn split(
    graph: &Graph,
    node: &Node,
    value: ValueId,
    parameters: &mut Vec<ValueId>,
) -> Option<Tensor> {
    let whole = evaluate(graph, node.input(0)?, parameters)?;
    let axis = fold::axis(node.int("axis", 0), whole.shape().len()).ok()?;
    let size = |v: ValueId| usize::try_from(graph.ty(v).shape[axis].as_known()?).ok();
    let before: Option<Vec<usize>> =
        node.outputs.iter().take_while(|v| **v != value).map(|v| size(*v)).collect();
    let (start, count) = (before?.iter().sum::<usize>(), size(value)?);
    let inner = whole.dtype().byte_len(whole.shape()[axis + 1..].iter().product());
    let (all, bytes) = (whole.shape()[axis] * inner, whole.bytes()?);
    let part = bytes.chunks_exact(all).flat_map(|row| &row[start * inner..(start + count) * inner]);
    let part: Vec<u8> = part.copied().collect();
    let mut shape = whole.shape().to_vec();
    shape[axis] = count;
    Tensor::new(whole.dtype(), &shape, Arc::new(part)).ok()
}
