//! The weights of a recurrent layer, as tensors in ONNX's layout.

use std::ops::Range;

use onnx::fold::{self, Exactness, Operation};
use onnx::{Graph, ValueId};
use tensor::Tensor;

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
        let tensor = evaluate(graph, weight.matrix, &mut self.parameters)?;
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
            let numbers = evaluate(graph, bias.value, &mut self.parameters)?.to_f64s()?;
            for (i, total) in sum.iter_mut().enumerate() {
                let at = bias.columns.as_ref().map_or(0, |columns| columns.start + i);
                *total += sign * numbers.get(at)?;
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
    let mut operands = Vec::new();
    for input in &node.inputs {
        operands.push(match input {
            Some(operand) => Some(evaluate(graph, *operand, parameters)?),
            None => None,
        });
    }
    let inputs: Vec<_> = operands.iter().map(Option::as_ref).collect();
    let ty = graph.ty(value);
    let shape = ty.static_shape()?.into_iter().map(|size| usize::try_from(size).ok());
    let (dtype, shape) = (ty.dtype, shape.collect::<Option<Vec<usize>>>()?);
    let result = node.outputs.iter().position(|output| *output == value)?;
    let exactness = Exactness::EachBit;
    fold::evaluate(&Operation { node, inputs: &inputs, dtype, shape: &shape, result, exactness })
        .ok()
}
