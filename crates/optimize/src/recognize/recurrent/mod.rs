//! Recurrent layers: recognises scans whose bodies are the cells of `LSTM`, `GRU` or `RNN`.
//!
//! `patterns/cells.txt` defines how a cell combines its gates. Gates are sums of products in many
//! spellings: one matrix for all gates or one per gate, for the input and the state separately or
//! concatenated. `affine` decomposes the sums, and `weights` assembles the matrices in ONNX's
//! order.

mod affine;
pub(crate) mod both_directions;
mod gates;
pub(crate) mod split_layers;
mod weights;

use std::sync::LazyLock;

use onnx::{Attr, Attrs, Graph, Node, Producer, Use, ValueId, attrs};
use tensor::{DType, Dim};

use self::affine::Analysis;
use self::gates::{Gate, Projection, Reading};
use self::weights::Rows;
use super::choice::check_form;
use super::matcher::{self, Bound, Finding};
use super::pattern::{self, Attribute, Spelling};
use super::placement::Placement;
use super::{RECOGNITION, missed, source_of, tensor_of};
use crate::loops::{Carried, Loop};
use crate::movement::transposed;
use crate::runner::{Rule, Rules};
use crate::{Match, Skip};

/// One spelling of a cell.
#[derive(Debug)]
pub(crate) struct Cell {
    op: &'static str,
    spelling: Spelling,
}

static CELLS: LazyLock<Result<Vec<Cell>, String>> = LazyLock::new(|| {
    let texts = [("cells", include_str!("../patterns/cells.txt"))];
    let spellings = pattern::compile(&texts)?.into_iter();
    Ok(spellings.map(|spelling| Cell { op: spelling.replacement.op, spelling }).collect())
});

/// Returns all cells, or the error if they cannot be parsed, which is a bug in this project.
fn all() -> Result<&'static [Cell], &'static str> {
    CELLS.as_deref().map_err(String::as_str)
}

/// The rules for all cells.
pub(crate) static RULES: LazyLock<Result<Rules<'static, Cell>, &'static str>> =
    LazyLock::new(|| Ok(Rules::new(RECOGNITION, all()?)));

/// Returns the layers that cells belong to.
pub(super) fn operators() -> impl Iterator<Item = &'static str> {
    all().unwrap_or_default().iter().map(|cell| cell.op)
}

/// A recognised layer.
struct Layer {
    /// The gates in ONNX's order.
    gates: Vec<Gate>,
    attrs: Attrs,
    /// For each stacked result, `true` if its steps are in the opposite order. The operator stores
    /// each step at the position of its input.
    turned: Vec<bool>,
    projection: Option<Projection>,
}

impl Rule for Cell {
    type Glance = ();

    fn glance(_graph: &Graph, _node: &Node) {}

    fn name(&self) -> &'static str {
        self.op
    }

    fn roots(&self) -> Vec<&'static str> {
        vec!["Scan"]
    }

    fn try_at(&self, m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
        let graph = m.graph();
        let scan = Loop::at(graph, m.id()).ok_or("the loop is incomplete")?;
        let state = State::of(graph, &scan, self.op == "LSTM")?;
        let found = state.find(graph, &scan, &self.spelling).ok_or("it is another cell")?;
        let dtype = graph.ty(state.hidden.inside).dtype;
        let mut attrs = self.attrs();
        check_form(m.forms(), self.op, "", dtype, &attrs)?;
        if let Some(reason) = state.choice {
            return Err(missed(reason));
        }
        let iteration = Iteration::of(graph, &scan, state)?;
        if dtype == DType::F64 {
            return Err(missed("the runtime lacks it for float64"));
        }
        let (is_backwards, turned) = iteration.order(graph, &scan)?;
        iteration.check_results(graph, &scan)?;
        let analysis = Analysis { graph, scan: &scan };
        let (spelling, found) = (&self.spelling, &found);
        let read = |projection: Option<&Projection>| {
            let reading = Reading { analysis, iteration: &iteration, spelling, found, projection };
            match self.op {
                "LSTM" => reading.lstm(),
                "GRU" => reading.gru(),
                _ => reading.rnn(),
            }
        };
        let (gates, projection) = match read(None) {
            Some(gates) => (gates, None),
            None => Projection::of(graph, iteration.sequence)
                .and_then(|projection| Some((read(Some(&projection))?, Some(projection))))
                .ok_or_else(|| missed(iteration.why_not_gates(graph)))?,
        };
        attrs.extend(attrs! { hidden_size: iteration.units(graph)? as i64 });
        if is_backwards {
            attrs.extend(attrs! { direction: "reverse" });
        }
        iteration.emit(m, &scan, self.op, Layer { gates, attrs, turned, projection })
    }
}

impl Cell {
    fn attrs(&self) -> Attrs {
        let given = self.spelling.replacement.attrs.iter();
        given
            .filter_map(|(name, attr)| match attr {
                Attribute::Is(Attr::String(text)) => {
                    Some((*name, Attr::Strings(vec![text.clone()])))
                }
                Attribute::Is(attr) => Some((*name, attr.clone())),
                Attribute::Hole(_) => None,
            })
            .collect()
    }
}

/// The state that a cell carries between iterations.
struct State {
    hidden: Carried,
    cell: Option<Carried>,
    /// All carried values, in the order of the loop.
    carried: Vec<Carried>,
    /// The reason why a mask on the state prevents recognition. An ONNX cell updates its state in
    /// every iteration.
    choice: Option<&'static str>,
}

/// The inputs and the carried state of an iteration.
struct Iteration {
    /// The scanned operand of the loop.
    sequence: ValueId,
    input: ValueId,
    state: State,
}

const KEPT: &str = "a mask keeps its old state in some steps: without the mask, the states of all steps \
                    are one node, and those of the steps you want can be gathered from its result";
const RESET: &str = "its state is reset in some steps";

impl State {
    fn of(graph: &Graph, scan: &Loop, has_cell: bool) -> Result<Self, Skip> {
        Self::among(graph, scan.state(graph), has_cell)
    }

    /// Returns the state of a cell that carries `state` and nothing else.
    fn among(graph: &Graph, mut state: Vec<Carried>, has_cell: bool) -> Result<Self, Skip> {
        let mut choice = None;
        for carried in &mut state {
            carried.next = source(graph, carried.next);
            if let Some(next) = kept(graph, *carried) {
                (carried.next, choice) = (next, Some(KEPT));
            } else if let Some(inside) = reset(graph, *carried) {
                (carried.inside, choice) = (inside, Some(RESET));
            }
        }
        if choice == Some(KEPT) {
            // A mask may also keep the output of an earlier step, which no step reads.
            state.retain(|carried| graph.value(carried.inside).uses().len() > 1);
        }
        let (hidden, cell) = match *state.as_slice() {
            [hidden] if !has_cell => (hidden, None),
            [a, b] if has_cell => {
                // The hidden state is computed from the cell state.
                let reads = |from: Carried, value| {
                    let tanh = graph.producer(from.next).map(|id| graph.node(id))?;
                    let mut operands = tanh.inputs.iter().flatten();
                    operands.find(|v| {
                        let node = graph.producer(**v).map(|id| graph.node(id));
                        node.is_some_and(|n| n.is("Tanh") && n.input(0) == Some(value))
                    })
                };
                match (reads(a, b.next), reads(b, a.next)) {
                    (Some(_), None) => (a, Some(b)),
                    (None, Some(_)) => (b, Some(a)),
                    _ => return Err("no state is computed from the other".into()),
                }
            }
            _ => return Err("the state does not fit the cell".into()),
        };
        Ok(Self { hidden, cell, carried: state, choice })
    }

    fn find(&self, graph: &Graph, scan: &Loop, spelling: &Spelling) -> Option<Finding> {
        let root = graph.producer(self.hidden.next)?;
        let placement = Placement::identity(graph.ty(self.hidden.inside).rank())?;
        let named = [("hidden", Some(self.hidden)), ("cell", self.cell)];
        let given = named.into_iter().filter_map(|(name, carried)| {
            let name = spelling.names.iter().position(|known| known == name)?;
            Some((name, Bound::Value(carried?.inside, placement.clone())))
        });
        matcher::find_given(graph, root, spelling, given.collect(), Some(scan.body))
    }
}

/// Looks through the `Identity` of a block result. Block results are distinct, so one of two equal
/// results is a copy.
fn source(graph: &Graph, value: ValueId) -> ValueId {
    source_of(graph, value, |node| node.is("Identity"))
}

/// Returns the newly computed state, if the iteration selects either that or the previous state.
fn kept(graph: &Graph, carried: Carried) -> Option<ValueId> {
    let node = graph.node(graph.producer(carried.next)?);
    let (yes, no) = (node.input(1)?, node.input(2)?);
    let new = if yes == carried.inside { no } else { yes };
    (node.is("Where") && (yes == carried.inside) != (no == carried.inside)).then_some(new)
}

/// Returns the carried state after an optional reset.
fn reset(graph: &Graph, carried: Carried) -> Option<ValueId> {
    let (id, 1 | 2) = graph.value(carried.inside).only_consumer()? else { return None };
    let node = graph.node(id);
    node.outputs.first().copied().filter(|_| node.is("Where"))
}

impl Iteration {
    fn of(graph: &Graph, scan: &Loop, state: State) -> Result<Self, Skip> {
        let (node, count) = (graph.node(scan.id), state.carried.len());
        let ([sequence], [input]) =
            (&node.inputs[count..], &graph.block(scan.body).inputs[count..])
        else {
            return Err("several sequences are scanned".into());
        };
        let sequence = sequence.ok_or("nothing is scanned")?;
        let ranks = (graph.ty(*input).rank(), graph.ty(state.hidden.inside).rank());
        if !matches!(ranks, (1, 1) | (2, 2)) {
            return Err("there are several axes of examples".into());
        }
        Ok(Self { sequence, input: *input, state })
    }

    /// Returns `true` if the sequence is read from its last step, and the same for each stacked result
    /// relative to that.
    fn order(&self, graph: &Graph, scan: &Loop) -> Result<(bool, Vec<bool>), Skip> {
        let node = graph.node(scan.id);
        if node.attr("scan_input_axes").is_some() || node.attr("scan_output_axes").is_some() {
            return Err("another axis is scanned".into());
        }
        let backwards = scan.reads_backwards(graph, 0);
        let stacked = 0..node.outputs.len() - self.state.carried.len();
        let turned = stacked.map(|index| scan.stacks_backwards(graph, index) != backwards);
        Ok((backwards, turned.collect()))
    }

    /// Checks that the loop stacks only its hidden states.
    fn check_results(&self, graph: &Graph, scan: &Loop) -> Result<(), Skip> {
        let is = |value, carried: Carried| source(graph, value) == carried.next;
        let mut others = scan.other_results(graph).filter(|value| !is(*value, self.state.hidden));
        match (others.next(), self.state.cell) {
            (None, _) => Ok(()),
            (Some(value), Some(cell)) if is(value, cell) => Err(missed(
                "it returns the cell state of every step, and the operator only that of the last one",
            )),
            (Some(_), _) => Err(missed("it returns more of each step than the hidden state")),
        }
    }

    /// Returns the reason why the gates could not be read.
    fn why_not_gates(&self, graph: &Graph) -> &'static str {
        let is_product = |place| match place {
            Use::Operand(id, _) => graph.node(id).is("MatMul") || graph.node(id).is("Gemm"),
            Use::Output(..) => false,
        };
        match graph.value(self.input).uses().any(is_product) {
            true => "a gate is more than a sum of products",
            false => {
                "its input is multiplied by weights before the scan; the operator does that itself, so do it in each step"
            }
        }
    }

    fn units(&self, graph: &Graph) -> Result<usize, Skip> {
        let size = known(graph.ty(self.state.hidden.inside).shape.last()).filter(|n| *n > 0);
        size.ok_or_else(|| missed("the size of its state is not known"))
    }

    fn emit(
        &self,
        m: &mut Match<'_>,
        scan: &Loop,
        op: &'static str,
        layer: Layer,
    ) -> Result<Vec<ValueId>, Skip> {
        let graph = m.graph();
        let dtype = graph.ty(self.state.hidden.inside).dtype;
        let units = self.units(graph)?;
        let source = layer.projection.as_ref().map_or(self.input, |projection| projection.source);
        let features = known(graph.ty(source).shape.last());
        let features = features.ok_or_else(|| missed("the size of its input is not known"))?;
        let is_single = graph.ty(self.input).rank() == 1;
        let (mut w, mut r) = (Rows::default(), Rows::default());
        let (mut b, mut rb) = (Rows::default(), Rows::default());
        let computed = || missed("its weights are computed in the model");
        for gate in &layer.gates {
            match &gate.input {
                Some((weight, columns)) => {
                    w.push(graph, weight, columns, gate.sign).ok_or_else(computed)?;
                }
                None => w.numbers.extend(std::iter::repeat_n(0.0, units * features)),
            }
            let (weight, columns) = &gate.state;
            r.push(graph, weight, columns, gate.sign).ok_or_else(computed)?;
            b.push_biases(graph, &gate.biases, units, gate.sign).ok_or_else(computed)?;
            rb.push_biases(graph, &gate.state_biases, units, gate.sign).ok_or_else(computed)?;
        }
        let rows = layer.gates.len() * units;
        let is_biased = [&b, &rb].iter().any(|biases| biases.is_something());
        let mut sequence = self.sequence;
        if let Some(Projection { source, order, .. }) = layer.projection {
            sequence = transposed(m, source, order)?;
        }
        if is_single {
            let axes = m.i64s(&[1]);
            sequence = m.op("Unsqueeze", &[sequence, axes], Attrs::new())?;
        }
        let mut parts = vec![("W", w, vec![1, rows, features]), ("R", r, vec![1, rows, units])];
        // Some runtimes lose NaN when they add biases. For them, the biases become the weights of an
        // additional input. This is impossible for a bias that a gate multiplies; legalisation
        // handles that case.
        let is_safe = m.forms().of(op).is_native() || !m.forms().target.limits_biased_sums;
        if is_biased && (rb.is_something() || is_safe) {
            parts.push(("B", b.followed_by(rb), vec![1, 2 * rows]));
        } else if is_biased {
            let weights = std::mem::take(&mut parts[0].1);
            parts[0] = ("W", weights.beside(&b.numbers, features), vec![1, rows, features + 1]);
            let pads = m.i64s(&[0, 0, 0, 0, 0, 1]);
            let one = m.scalar(dtype, 1.0)?;
            sequence = m.op("Pad", &[sequence, pads, one], Attrs::new())?;
        }
        let mut made = Vec::new();
        let all: Vec<ValueId> = parts.iter().flat_map(|part| part.1.parameters.clone()).collect();
        for (what, weights, shape) in parts {
            let name = weights.name(m.graph(), what);
            let is_own = |parameter| {
                all.iter().filter(|other| **other == parameter).count() == 1
                    && is_read_only_by(m.graph(), parameter, scan)
            };
            let sole = match *weights.parameters.as_slice() {
                [parameter] if is_own(parameter) => Some(parameter),
                _ => None,
            };
            let tensor = tensor_of(dtype, &shape, weights.numbers);
            let tensor = tensor.ok_or("the type cannot hold weights")?;
            made.push(Some(match (sole, name) {
                (Some(parameter), _) => m.rename(parameter, tensor),
                (None, Some(name)) => m.named(name, tensor),
                (None, None) => m.tensor(tensor),
            }));
        }
        made.resize(3, None);
        let mut inputs = vec![Some(sequence)];
        inputs.extend(made);
        inputs.push(None);
        let axes = m.i64s(if is_single { &[0, 1] } else { &[0] });
        for carried in [Some(self.state.hidden), self.state.cell].into_iter().flatten() {
            // Not every runtime makes the zeros for a batch of symbolic size.
            let is_omitted = is_zero(m.graph(), carried.initial)
                && m.graph().ty(carried.initial).static_shape().is_some();
            inputs.push(match is_omitted {
                true => None,
                false => Some(m.op("Unsqueeze", &[carried.initial, axes], Attrs::new())?),
            });
        }
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let count = if self.state.cell.is_some() { 3 } else { 2 };
        let results = m.op_many(op, inputs, layer.attrs, count)?;
        let mut replaced = Vec::new();
        for carried in &self.state.carried {
            let is_hidden = carried.inside == self.state.hidden.inside;
            let result = results[if is_hidden { 1 } else { 2 }];
            replaced.push(m.op("Squeeze", &[result, axes], Attrs::new())?);
        }
        for is_turned in layer.turned {
            let axes = m.i64s(if is_single { &[1, 2] } else { &[1] });
            let mut stacked = m.op("Squeeze", &[results[0], axes], Attrs::new())?;
            if is_turned {
                let (last, end, time) = (m.i64s(&[-1]), m.i64s(&[i64::MIN]), m.i64s(&[0]));
                stacked = m.op("Slice", &[stacked, last, end, time, last], Attrs::new())?;
            }
            replaced.push(stacked);
        }
        Ok(replaced)
    }
}

fn known(dim: Option<&Dim>) -> Option<usize> {
    usize::try_from(dim?.as_known()?).ok()
}

/// Returns `true` if only the loop reads a value, directly or through nodes whose results only the
/// loop reads.
fn is_read_only_by(graph: &Graph, value: ValueId, scan: &Loop) -> bool {
    graph.value(value).uses().all(|place| match place {
        Use::Operand(id, _) => {
            let node = graph.node(id);
            let mut results = node.outputs.iter();
            node.block() == scan.body
                || (id != scan.id && results.all(|v| is_read_only_by(graph, *v, scan)))
        }
        Use::Output(..) => false,
    })
}

/// Returns `true` if an initial state is zero.
fn is_zero(graph: &Graph, value: ValueId) -> bool {
    match graph.value(value).producer() {
        Producer::Constant(tensor) => tensor.splat() == Some(0.0),
        Producer::Node(id, _) => {
            let node = graph.node(*id);
            node.is("Expand") && node.input(0).is_some_and(|from| is_zero(graph, from))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
