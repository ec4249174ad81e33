//! Reads the weights and biases of a cell's gates.

use std::ops::Range;

use onnx::{Graph, ValueId};
use tensor::Dim;

use super::affine::{Affine, Analysis, Bias, Term, Weight};
use super::{Iteration, weights};
use crate::movement::AxisMap;
use crate::recognize::matcher::{Bound, Finding};
use crate::recognize::pattern::Spelling;

/// A gate: the weights of the input and the state, and the biases.
pub(super) struct Gate {
    pub(super) input: Option<(Weight, Range<usize>)>,
    pub(super) state: (Weight, Range<usize>),
    pub(super) biases: Vec<Bias>,
    /// The biases of the product with the state. They are added before the reset gate multiplies
    /// it.
    pub(super) state_biases: Vec<Bias>,
    pub(super) sign: f64,
}

/// A sequence that is multiplied by a matrix before the scan.
pub(super) struct Projection {
    /// The factor of the product.
    pub(super) source: ValueId,
    /// The permutation of its axes before the scan, which preserves the last one.
    pub(super) order: AxisMap,
    pub(super) weight: Weight,
    pub(super) biases: Vec<ValueId>,
}

impl Projection {
    pub(super) fn of(graph: &Graph, sequence: ValueId) -> Option<Self> {
        let is_settled =
            |value: ValueId| weights::evaluate(graph, value, &mut Vec::new()).is_some();
        let width = graph.ty(sequence).shape.last()?.clone();
        let is_bias = |value: ValueId| {
            let shape = &graph.ty(value).shape;
            let (last, others) = shape.split_last()?;
            let fits = *last == width && others.iter().all(|dim| *dim == Dim::Known(1));
            (fits && is_settled(value)).then_some(value)
        };
        let last = graph.ty(sequence).rank().checked_sub(1)?;
        let mut order = AxisMap::permutation((0..=last).collect());
        let (mut value, mut biases) = (sequence, Vec::new());
        loop {
            let node = graph.node(graph.producer(value)?);
            if !node.op.domain.is_empty() || graph.value(value).uses().len() != 1 {
                return None;
            }
            value = match (node.op.name, node.inputs.as_slice()) {
                ("Add", [Some(a), Some(b)]) => {
                    let (bias, other) = match (is_bias(*a), is_bias(*b)) {
                        (None, Some(bias)) => (bias, *a),
                        (Some(bias), None) => (bias, *b),
                        _ => return None,
                    };
                    biases.push(bias);
                    other
                }
                ("Transpose", [Some(from)]) => {
                    let moved = AxisMap::of(graph, node).filter(|moved| moved.kept() > 0)?;
                    order = moved.then(&order);
                    *from
                }
                ("MatMul", [Some(source), Some(matrix)])
                    if graph.ty(*matrix).rank() == 2 && is_settled(*matrix) =>
                {
                    let rows = graph.ty(*matrix).shape[0].as_known()?;
                    let rows = 0..usize::try_from(rows).ok()?;
                    let weight = Weight { matrix: *matrix, rows, is_transposed: false };
                    return Some(Self { source: *source, order, weight, biases });
                }
                _ => return None,
            };
            if graph.ty(value).shape.len() != last + 1 {
                return None;
            }
        }
    }
}

/// A matched cell whose gates are to be read.
pub(super) struct Reading<'r> {
    pub(super) analysis: Analysis<'r>,
    pub(super) iteration: &'r Iteration,
    pub(super) spelling: &'r Spelling,
    pub(super) found: &'r Finding,
    /// The projection of the input, if the gates use the input without a weight.
    pub(super) projection: Option<&'r Projection>,
}

impl Reading<'_> {
    fn value(&self, name: &str) -> Option<ValueId> {
        let name = self.spelling.names.iter().position(|known| known == name)?;
        let bound = self.found.bound.iter().rev().find(|(known, _)| *known == name)?;
        match bound.1 {
            Bound::Value(value, _) => Some(value),
            _ => None,
        }
    }

    /// Reads the gate `name`, a sigmoid.
    fn sigmoid(&self, name: &str) -> Option<Gate> {
        self.gate(
            self.analysis.gate(self.value(name)?, "Sigmoid")?,
            self.iteration.state.hidden.inside,
        )
    }

    fn sum(&self, name: &str) -> Option<Gate> {
        self.gate(self.analysis.affine(self.value(name)?)?, self.iteration.state.hidden.inside)
    }

    /// Reads a sum of products of the input and `state`.
    fn gate(&self, sum: Affine, state: ValueId) -> Option<Gate> {
        let (mut of_input, mut of_state) = (None, None);
        let mut biases = sum.biases;
        for term in sum.terms {
            let (place, weight) = match term.base {
                base if base == self.iteration.input => {
                    (&mut of_input, self.of_input(&term, &mut biases)?)
                }
                base if base == state => (&mut of_state, term.weight?),
                _ => return None,
            };
            if place.replace((weight, term.columns)).is_some() {
                return None;
            }
        }
        let state_biases = Vec::new();
        Some(Gate { input: of_input, state: of_state?, biases, state_biases, sign: 1.0 })
    }

    /// Returns the weight of the input, either inside the scan or before it. Biases added before
    /// the scan are appended to `biases`.
    fn of_input(&self, term: &Term, biases: &mut Vec<Bias>) -> Option<Weight> {
        let Some(projection) = self.projection else { return term.weight.clone() };
        if term.weight.is_some() {
            return None;
        }
        let added = |value: &ValueId| Bias { value: *value, columns: Some(term.columns.clone()) };
        biases.extend(projection.biases.iter().map(added));
        Some(projection.weight.clone())
    }

    pub(super) fn lstm(&self) -> Option<Vec<Gate>> {
        let gates = [self.sigmoid("i"), self.sigmoid("o"), self.sigmoid("f"), self.sum("c")];
        gates.into_iter().collect()
    }

    pub(super) fn gru(&self) -> Option<Vec<Gate>> {
        let z = match self.value("z") {
            Some(_) => self.sigmoid("z")?,
            None => Gate { sign: -1.0, ..self.sigmoid("inverse_z")? },
        };
        if self.value("reset").is_none() {
            let (r, h) = self.reset_state()?;
            return Some(vec![z, r, h]);
        }
        let either = self.sigmoid("r").map(|r| (r, "reset"));
        let (r, product) = either.or_else(|| Some((self.sigmoid("reset")?, "r")))?;
        let product = self.analysis.affine(self.value(product)?)?;
        let input = self.analysis.affine(self.value("h")?)?;
        let of_state = self.gate(product, self.iteration.state.hidden.inside)?;
        let [term] = input.terms.as_slice() else { return None };
        if of_state.input.is_some() || term.base != self.iteration.input {
            return None;
        }
        let mut biases = input.biases;
        let weight = self.of_input(term, &mut biases)?;
        let h = Gate {
            input: Some((weight, term.columns.clone())),
            biases,
            state_biases: of_state.biases,
            ..of_state
        };
        Some(vec![z, r, h])
    }

    /// Reads the gates of a cell that resets the state before multiplying it.
    fn reset_state(&self) -> Option<(Gate, Gate)> {
        let sum = self.analysis.affine(self.value("h")?)?;
        let is_input = |term: &&Term| term.base == self.iteration.input;
        let reset = sum.terms.iter().find(|term| !is_input(term))?.base;
        let product = self.analysis.node(reset).filter(|node| node.is("Mul"))?;
        let [Some(a), Some(b)] = *product.inputs.as_slice() else { return None };
        let hidden = self.iteration.state.hidden.inside;
        let other = if a == hidden { b } else { a };
        if a != hidden && b != hidden {
            return None;
        }
        let r = self.gate(self.analysis.gate(other, "Sigmoid")?, hidden)?;
        Some((r, self.gate(sum, reset)?))
    }

    pub(super) fn rnn(&self) -> Option<Vec<Gate>> {
        Some(vec![self.sum("i")?])
    }
}
