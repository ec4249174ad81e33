//! Computes a `GRU` with biases only if all its sums stay finite.
//!
//! Some targets clamp the sums to which they add a bias, and NaN becomes the upper limit: a step
//! that should result in NaN keeps the previous state. If the sequence and the initial state are
//! small enough for the weights, as they are in practice, no sum can be NaN or infinite. Otherwise
//! a loop with the same weights replaces the layer: a `Loop`, which more runtimes load than a
//! `Scan`, or a `Scan`, which is faster, if the loop always runs.

use std::panic::Location;

use onnx::formula::formulas;
use onnx::{Attrs, Builder, Graph, Node, NodeId, Op, Result, ValueId, attrs};
use tensor::{DType, Dim, Tensor, Type};

use super::{Error, Legalizer, made_by};
use crate::Forms;
use crate::targets::loop_for_scan;

/// The largest initial state. If sums are clamped, gates never close completely, so part of a large state
/// remains that should vanish. A layer's own states do not exceed one.
const LARGEST_STATE: f64 = 16.0;

/// Guards all such layers, unless the native form was requested.
pub(super) fn guard(work: &mut Legalizer<'_>, forms: &Forms) -> std::result::Result<(), Error> {
    if forms.of("GRU").is_native() {
        return Ok(());
    }
    for id in work.graph().all_nodes() {
        let layer = Layer::at(work.graph(), id);
        // A finite state may still be large.
        if let Some(layer) = layer.filter(|layer| !forms.finite || layer.starts_anywhere) {
            let results = layer.guarded(&mut work.builder(id))?;
            work.substitute(id, &results)?;
            for scan in rarely_used_scans(work.graph(), results[0]) {
                loop_for_scan(work, scan)?;
            }
        }
    }
    Ok(())
}

/// Returns the scans of the second branch if `result` is that of an `If`.
fn rarely_used_scans(graph: &Graph, result: ValueId) -> Vec<NodeId> {
    let branch = made_by(graph, result, "If").and_then(|choice| choice.subgraph("else_branch"));
    let nodes = branch.into_iter().flat_map(|branch| graph.nodes_of(branch));
    nodes.filter(|id| graph.node(*id).is("Scan")).collect()
}

/// A layer with biases whose reset gate multiplies the product of the state and its weights.
struct Layer {
    node: Node,
    sequence: ValueId,
    /// The weights of the input and of the state, and the biases of both.
    weights: [ValueId; 3],
    initial: Option<ValueId>,
    /// `true` if the initial state may be larger than [`LARGEST_STATE`].
    starts_anywhere: bool,
    units: i64,
    /// For each direction, `true` if it goes from the last step to the first.
    backwards: &'static [bool],
}

impl Layer {
    fn at(graph: &Graph, id: NodeId) -> Option<Self> {
        let node = graph.node(id);
        let is_plain = node.int("linear_before_reset", 0) == 1
            && node.input(4).is_none()
            && ["activations", "clip", "layout"].iter().all(|name| node.attr(name).is_none());
        if !node.is("GRU") || !is_plain {
            return None;
        }
        let backwards: &[bool] = match node.string("direction", "forward") {
            "bidirectional" => &[false, true],
            "reverse" => &[true],
            _ => &[false],
        };
        let sequence = node.input(0).filter(|v| graph.ty(*v).dtype == DType::F32)?;
        let weights = [node.input(1)?, node.input(2)?, node.input(3)?];
        let (initial, units) = (node.input(5), node.int("hidden_size", 0));
        let is_large = |value| graph.facts().magnitude(value).is_none_or(|m| m > LARGEST_STATE);
        let (node, starts_anywhere) = (node.clone(), initial.is_some_and(is_large));
        Some(Self { node, sequence, weights, initial, starts_anywhere, units, backwards })
    }

    fn guarded(&self, b: &mut Builder<'_>) -> Result<Vec<ValueId>> {
        let Some(limit) = self.limit(b.graph()) else { return self.scans(b) };
        let limit = b.scalar(DType::F32, limit)?;
        // The sum of absolute values. Comparisons with NaN are false.
        let sum = b.op("ReduceL1", &[self.sequence], attrs! { keepdims: 0 })?;
        let mut all = b.op("LessOrEqual", &[sum, limit], Attrs::new())?;
        if let Some(initial) = self.initial.filter(|_| self.starts_anywhere) {
            let most = b.op("Abs", &[initial], Attrs::new())?;
            let most = b.op("ReduceMax", &[most], attrs! { keepdims: 0 })?;
            let limit = b.scalar(DType::F32, LARGEST_STATE)?;
            let is_small = b.op("LessOrEqual", &[most, limit], Attrs::new())?;
            all = b.op("And", &[all, is_small], Attrs::new())?;
        }
        let Node { inputs, attrs, outputs, .. } = self.node.clone();
        let count = outputs.len();
        let yes =
            b.body(|b, _| b.emit(Op::onnx("GRU"), inputs, attrs, count, Location::caller()))?;
        let no = b.body(|b, _| self.scans(b))?;
        let branches = attrs! { then_branch: yes, else_branch: no };
        b.emit(Op::onnx("If"), vec![Some(all)], branches, count, Location::caller())
    }

    /// Returns the largest sequence sum for which no sum of products is infinite, or `None` if
    /// numbers of ordinary size exceed it.
    fn limit(&self, graph: &Graph) -> Option<f64> {
        // Weights that a person puts in their place are of the same size.
        let [w, r, biases] =
            self.weights.map(|value| graph.tensor(value).and_then(Tensor::to_f64s));
        let total = |numbers: Vec<f64>| numbers.into_iter().map(f64::abs).sum::<f64>();
        // The state does not exceed one or its initial value, which is far below any limit.
        let factors = total(w?) + total(r?) + total(biases?) + 1.0;
        let limit = f64::from(f32::MAX) / 4.0 / factors;
        (limit >= 1e6).then_some(limit)
    }

    /// Emits the computation of the layer step by step.
    fn scans(&self, b: &mut Builder<'_>) -> Result<Vec<ValueId>> {
        let (mut all, mut last) = (Vec::new(), Vec::new());
        for (index, backwards) in self.backwards.iter().enumerate() {
            let index = b.int(DType::I64, index as i128)?;
            let of_direction =
                |b: &mut Builder<'_>, value| b.op("Gather", &[value, index], attrs! { axis: 0 });
            let initial = match self.initial {
                Some(initial) => of_direction(b, initial)?,
                None => self.zeros(b)?,
            };
            let state = b.ty(initial).clone();
            let body = b.body(|b, block| {
                let hidden = b.graph_mut().add_input(block, state);
                let shape = b.shape(self.sequence)[1..].to_vec();
                let input = b.graph_mut().add_input(block, Type::new(DType::F32, shape));
                // Not every runtime reads values of the branch in a scan inside it.
                let [w, r, biases] = self.weights;
                let (w, r) = (of_direction(b, w)?, of_direction(b, r)?);
                let biases = of_direction(b, biases)?;
                let halves = b.i64s(&[3 * self.units, 3 * self.units]);
                let biases = b.op_many("Split", &[biases, halves], attrs! { axis: 0 }, 2)?;
                self.step(b, input, hidden, [(w, biases[0]), (r, biases[1])])
            })?;
            let directions = vec![i64::from(*backwards)];
            let attrs = attrs! {
                body: body,
                num_scan_inputs: 1,
                scan_input_directions: directions.clone(),
                scan_output_directions: directions,
            };
            let results = b.op_many("Scan", &[initial, self.sequence], attrs, 2)?;
            last.push(b.unsqueeze(results[0], &[0])?);
            all.push(b.unsqueeze(results[1], &[1])?);
        }
        let mut joined = |values: Vec<ValueId>, axis: i64| match *values.as_slice() {
            [one] => Ok(one),
            _ => b.op("Concat", &values, attrs! { axis: axis }),
        };
        let mut results = vec![joined(all, 1)?, joined(last, 0)?];
        results.truncate(self.node.outputs.len());
        Ok(results)
    }

    fn zeros(&self, b: &mut Builder<'_>) -> Result<ValueId> {
        let shape = match b.shape(self.sequence)[1] {
            Dim::Known(batch) => b.i64s(&[batch, self.units]),
            _ => {
                let sizes = b.op("Shape", &[self.sequence], Attrs::new())?;
                let (batch, units) = (b.i64s(&[1]), b.i64s(&[self.units]));
                let batch = b.op("Gather", &[sizes, batch], attrs! { axis: 0 })?;
                b.op("Concat", &[batch, units], attrs! { axis: 0 })?
            }
        };
        let zero = b.scalar(DType::F32, 0.0)?;
        b.op("Expand", &[zero, shape], Attrs::new())
    }

    /// Emits one iteration and returns the next state, twice.
    fn step(
        &self,
        b: &mut Builder<'_>,
        input: ValueId,
        hidden: ValueId,
        [of_input, of_state]: [(ValueId, ValueId); 2],
    ) -> Result<Vec<ValueId>> {
        let thirds = b.i64s(&[self.units; 3]);
        let gates = |b: &mut Builder<'_>, value, (weight, bias)| {
            let sums = b.op("Gemm", &[value, weight, bias], attrs! { transB: 1 })?;
            b.op_many("Split", &[sums, thirds], attrs! { axis: 1 }, 3)
        };
        let (x, h) = (gates(b, input, of_input)?, gates(b, hidden, of_state)?);
        let operands = [x[0], x[1], x[2], h[0], h[1], h[2], hidden];
        let [next] = formulas(b, operands, |[xz, xr, xn, hz, hr, hn, hidden]| {
            let (update, reset) = ((xz + hz).sigmoid(), (xr + hr).sigmoid());
            let new = (xn + reset * hn).tanh();
            [(1.0 - update) * new + update * hidden]
        })?;
        Ok(vec![next, b.op("Identity", &[next], Attrs::new())?])
    }
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    fn text(number: &str, operands: &str) -> String {
        format!(
            "g (float[T,B,1] x, float[1,B,1] h) => (float[T,1,B,1] y, float[1,B,1] z)
            <float[1,3,1] w = {{1, 2, {number}}}, float[1,3,1] r = {{4, 5, 6}}, float[1,6] b = {{1, 2, 3, 4, 5, 6}}> {{
                y, z = GRU <hidden_size = 1, linear_before_reset = 1> ({operands})
            }}"
        )
    }

    #[test]
    fn large_numbers_go_another_way() {
        let legalized = |operands, target| testing::legalized(&text("3", operands), target);
        let small = "ReduceL1:f32 LessOrEqual:bool";
        let state = "Abs:f32 ReduceMax:f32 ReduceSum:f32 Min:f32 LessOrEqual:bool And:bool";
        assert_eq!(
            legalized("x, w, r, b, \"\", h", Target::default()),
            format!("{small} {state} If:f32/f32")
        );
        assert_eq!(legalized("x, w, r, b", Target::default()), format!("{small} If:f32/f32"));
        assert_eq!(legalized("x, w, r, b", Target::any()), "GRU:f32/f32");
        assert_eq!(legalized("x, w, r", Target::default()), "GRU:f32/f32");
    }

    #[test]
    fn initial_states_that_are_known_to_be_small_are_not_checked() {
        let is_checked = |number: &str| {
            let state = format!(
                "c = Constant <value = float[1,1,1] {{{number}}}> ()
                n = Shape (h)
                s = Expand (c, n)
                y, z ="
            );
            let text = text("3", "x, w, r, b, \"\", s").replace("y, z =", &state);
            testing::legalized(&text, Target::default()).contains("And")
        };
        assert!(!is_checked("0"));
        assert!(is_checked("17"));
    }

    #[test]
    fn large_weights_leave_no_choice() {
        let text = text("3e38", "x, w, r, b, \"\", h");
        assert!(testing::legalized(&text, Target::default()).contains("Scan:f32/f32"));
    }

    #[test]
    fn layers_with_other_sums_are_unchanged() {
        let legalized = |old: &str, new: &str| {
            testing::legalized(&text("3", "x, w, r, b, l").replace(old, new), Target::default())
        };
        let plain = legalized(", l)", ")");
        assert!(plain.ends_with("If:f32/f32"), "{plain}");
        // A part of the sequence, or a sum that a gate has multiplied before.
        let lengths = text("3", "x, w, r, b, l").replace("g (float", "g (int32[B] l, float");
        assert_eq!(testing::legalized(&lengths, Target::default()), "GRU:f32/f32");
        for (old, new) in [
            ("linear_before_reset = 1", "linear_before_reset = 0"),
            ("linear_before_reset = 1", "linear_before_reset = 1, clip = 9.0"),
        ] {
            let text = text("3", "x, w, r, b").replace(old, new);
            assert_eq!(testing::legalized(&text, Target::default()), "GRU:f32/f32", "{new}");
        }
    }
}
