//! A scan whose body computes several layers → one scan per layer, so that each becomes one node.
//!
//! A layer is split off if its cell is recognised and the others read only its new hidden state.

use std::panic::Location;

use onnx::{Attrs, Graph, NodeId, Op, Use, ValueId, attrs};
use rustc_hash::{FxHashMap, FxHashSet};
use tensor::Type;

use super::{State, all};
use crate::loops::{Carried, Loop};
use crate::recognize::choice::check_form;
use crate::{Changed, Editor, Error, Pass, Problem};

pub(crate) const PASS: Pass = Pass { name: "split_layers", run };

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    for mut id in Loop::all(edit.graph()) {
        while let Some(layer) = FirstLayer::at(edit, id) {
            if !edit.spend(PASS.name) {
                return Ok(changed);
            }
            id = layer.split(edit)?;
            changed = Changed::Yes;
        }
    }
    Ok(changed)
}

/// A layer that depends on no other layer of the scan.
struct FirstLayer {
    scan: Loop,
    /// The positions of its state among the carried values.
    state: Vec<usize>,
    hidden: Carried,
    /// The nodes that compute it, in order.
    nodes: Vec<NodeId>,
    /// The position of its sequence among the scanned operands.
    sequence: usize,
}

impl FirstLayer {
    fn at(edit: &Editor<'_>, id: NodeId) -> Option<Self> {
        let graph = edit.graph();
        let scan = Loop::at(graph, id).filter(|scan| scan.carried > 1)?;
        let node = graph.node(id);
        let is_other = |name| node.attr(name).is_some();
        if !node.is("Scan") || is_other("scan_input_axes") || is_other("scan_output_axes") {
            return None;
        }
        let carried = scan.state(graph);
        (0..carried.len()).find_map(|first| Self::of(edit, scan, &carried, first))
    }

    /// Returns the layer that computes a carried value.
    fn of(edit: &Editor<'_>, scan: Loop, carried: &[Carried], first: usize) -> Option<Self> {
        let graph = edit.graph();
        let mut state = vec![first];
        let mut seen = FxHashSet::default();
        let mut work = vec![carried[first].next];
        while let Some(value) = work.pop() {
            if !scan.is_inside(graph, value) || !seen.insert(value) {
                continue;
            }
            if let Some(node) = graph.producer(value) {
                work.extend(scan.varying_operands(graph, node));
            }
            let position = carried.iter().position(|c| c.inside == value);
            if let Some(k) = position.filter(|k| !state.contains(k)) {
                state.push(k);
                work.push(carried[k].next);
            }
        }
        state.sort_unstable();
        if state.len() == carried.len() {
            return None;
        }
        let own: Vec<Carried> = state.iter().map(|k| carried[*k]).collect();
        let hidden = Self::hidden(edit, &scan, &own)?;
        let elements = &graph.block(scan.body).inputs[scan.carried..];
        let mut read = (0..elements.len()).filter(|k| seen.contains(&elements[*k]));
        let (sequence, None) = (read.next()?, read.next()) else { return None };
        let computes = |id: &NodeId| graph.node(*id).outputs.iter().any(|v| seen.contains(v));
        let nodes: Vec<NodeId> = graph.nodes_of(scan.body).filter(computes).collect();
        let layer = Self { scan, state, hidden, nodes, sequence };
        layer.is_separate(graph, &own).then_some(layer)
    }

    /// Returns the hidden state, if the carried values are the state of a cell.
    fn hidden(edit: &Editor<'_>, scan: &Loop, own: &[Carried]) -> Option<Carried> {
        let graph = edit.graph();
        all().ok()?.iter().find_map(|cell| {
            let state = State::among(graph, own.to_vec(), cell.op == "LSTM").ok()?;
            let dtype = graph.ty(state.hidden.inside).dtype;
            check_form(edit.forms(), cell.op, "", dtype, &cell.attrs()).ok()?;
            let is_plain = state.choice.is_none() && state.carried.len() == own.len();
            state.find(graph, scan, &cell.spelling).filter(|_| is_plain)?;
            own.iter().find(|carried| carried.inside == state.hidden.inside).copied()
        })
    }

    /// Returns `true` if nothing else reads what depends on the state, except for the new hidden
    /// state.
    fn is_separate(&self, graph: &Graph, own: &[Carried]) -> bool {
        let nodes: FxHashSet<NodeId> = self.nodes.iter().copied().collect();
        let mut dependent: FxHashSet<ValueId> = own.iter().map(|carried| carried.inside).collect();
        for id in &self.nodes {
            let node = graph.node(*id);
            if node.blocks().next().is_some() {
                return false;
            }
            if node.inputs.iter().flatten().any(|value| dependent.contains(value)) {
                dependent.extend(&node.outputs);
            }
        }
        let is_own = |value: ValueId, place| match place {
            Use::Operand(id, _) => nodes.contains(&id) || value == self.hidden.next,
            Use::Output(block, index) => block == self.scan.body && self.state.contains(&index),
        };
        dependent.iter().all(|value| graph.value(*value).uses().all(|place| is_own(*value, place)))
    }

    /// Splits the layer off and returns the scan of the others.
    fn split(self, edit: &mut Editor<'_>) -> Result<NodeId, Error> {
        let node = edit.graph().node(self.scan.id).clone();
        let carried = self.scan.state(edit.graph());
        let backwards = |edit: &Editor<'_>, k| self.scan.reads_backwards(edit.graph(), k);
        let is_backwards = backwards(edit, self.sequence);
        let made = self.emit(edit, &node.inputs, &carried, is_backwards);
        let (finals, stacked) = made.map_err(|error| Error {
            rewrite: PASS.name,
            origin: Some(node.origin),
            problem: Problem::Node(error),
        })?;
        for (k, result) in self.state.iter().zip(finals) {
            edit.replace_uses(carried[*k].result, result);
        }

        // The others read the stacked hidden states.
        let (body, first) = (self.scan.body, self.scan.carried);
        let hidden_type = edit.graph().ty(self.hidden.next).clone();
        let inside = edit.graph_mut().add_input(body, hidden_type);
        let stays = |k: &usize| *k >= first || !self.state.contains(k);
        let remaining = |all: &[ValueId]| -> Vec<ValueId> {
            (0..all.len()).filter(stays).map(|k| all[k]).collect()
        };
        let outputs = remaining(edit.graph().block(body).outputs());
        edit.graph_mut().set_outputs(body, &outputs);
        edit.replace_uses(self.hidden.next, inside);
        for id in self.nodes.iter().rev() {
            if edit.graph().get(*id).is_some() {
                edit.remove_dead(*id);
            }
        }
        let inputs = edit.graph().block(body).inputs.clone();
        let is_read = |k: usize| k < first || edit.graph().value(inputs[k]).is_used();
        let kept: Vec<usize> = (0..inputs.len()).filter(|k| stays(k) && is_read(*k)).collect();
        edit.set_inputs(body, kept.iter().map(|k| inputs[*k]).collect());

        let operands: Vec<_> = node.inputs.iter().copied().chain([Some(stacked)]).collect();
        let operands = kept.iter().map(|k| operands[*k]).collect();
        let directions = (0..node.inputs.len() - first).map(|k| backwards(edit, k));
        let directions: Vec<bool> = directions.chain([is_backwards]).collect();
        let directions = kept.iter().filter_map(|k| directions.get(k.checked_sub(first)?));
        let directions: Vec<i64> = directions.map(|backwards| i64::from(*backwards)).collect();
        let mut attrs = std::mem::take(edit.attrs_mut(self.scan.id));
        attrs.retain(|(name, _)| !matches!(*name, "num_scan_inputs" | "scan_input_directions"));
        let count = directions.len() as i64;
        attrs.extend(attrs! { num_scan_inputs: count, scan_input_directions: directions });
        let types = remaining(&node.outputs).into_iter();
        let types = types.map(|value| edit.graph().ty(value).clone()).collect();
        let new = edit.remake(self.scan.id, (node.op, operands, attrs), types);
        let mut results = edit.graph().node(new).outputs.clone().into_iter();
        let with: Vec<ValueId> = (0..node.outputs.len())
            .filter_map(|k| if stays(&k) { results.next() } else { Some(carried[k].initial) })
            .collect();
        edit.replace(PASS.name, self.scan.id, &with, &[new])?;
        Ok(new)
    }

    /// Emits the scan of the layer. Returns its final state, and the hidden states of all
    /// iterations.
    fn emit(
        &self,
        edit: &mut Editor<'_>,
        operands: &[Option<ValueId>],
        carried: &[Carried],
        backwards: bool,
    ) -> onnx::Result<(Vec<ValueId>, ValueId)> {
        let graph = edit.graph();
        let element = graph.block(self.scan.body).inputs[self.scan.carried + self.sequence];
        let own: Vec<Carried> = self.state.iter().map(|k| carried[*k]).collect();
        let inside: Vec<ValueId> = own.iter().map(|c| c.inside).chain([element]).collect();
        let nodes: Vec<_> = self.nodes.iter().map(|id| graph.node(*id).clone()).collect();
        let types: Vec<Type> = inside.iter().map(|value| graph.ty(*value).clone()).collect();
        let results: Vec<Vec<Type>> = (nodes.iter())
            .map(|node| node.outputs.iter().map(|v| graph.ty(*v).clone()).collect())
            .collect();
        // The layer comes from the line and the module of its cell.
        let origin = graph.producer(self.hidden.next).unwrap_or(self.scan.id);
        let origin = graph.node(origin).origin;
        let mut pairs = Vec::with_capacity(nodes.len());
        let b = &mut edit.builder(PASS.name, self.scan.id);
        let body = b.body(|b, block| {
            let mut copies: FxHashMap<ValueId, ValueId> = FxHashMap::default();
            for (value, ty) in inside.iter().zip(types) {
                copies.insert(*value, b.graph_mut().add_input(block, ty));
            }
            let copied = |copies: &FxHashMap<_, _>, v| copies.get(&v).copied().unwrap_or(v);
            for ((id, node), types) in self.nodes.iter().zip(&nodes).zip(results) {
                let inputs = node.inputs.iter().map(|v| v.map(|v| copied(&copies, v))).collect();
                let parts = (node.op, inputs, node.attrs.clone());
                let made = b.like(node.origin, |b| b.emit_typed(parts, types, Location::caller()));
                pairs.extend(b.graph().producer(made[0]).map(|copy| (*id, copy)));
                copies.extend(node.outputs.iter().copied().zip(made));
            }
            let mut outputs: Vec<_> = own.iter().map(|c| copied(&copies, c.next)).collect();
            let hidden = copied(&copies, self.hidden.next);
            outputs.push(b.op("Identity", &[hidden], Attrs::new())?);
            Ok(outputs)
        })?;
        let mut inputs: Vec<_> = own.iter().map(|c| Some(c.initial)).collect();
        inputs.push(operands[self.scan.carried + self.sequence]);
        let direction = vec![i64::from(backwards)];
        let attrs = attrs! {
            body: body,
            num_scan_inputs: 1,
            scan_input_directions: direction.clone(),
            scan_output_directions: direction,
        };
        let count = own.len() + 1;
        let op = Op::onnx("Scan");
        let mut results =
            b.like(origin, |b| b.emit(op, inputs, attrs, count, Location::caller()))?;
        let stacked = results.split_off(own.len());
        pairs.into_iter().for_each(|(node, copy)| edit.inherit_as(node, copy));
        Ok((results, stacked[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::PASS;
    use crate::Changed;
    use crate::testing::{edited, passes_to};

    /// Returns the nodes of a cell whose names end in `n`.
    fn cell(input: &str, state: &str, weights: &str, n: usize) -> String {
        format!(
            "i{n} = MatMul ({input}, {weights}) j{n} = MatMul ({state}, {weights}) k{n} = Add (i{n}, j{n})
            z{n} = Sigmoid (k{n}) o{n} = Sub (one, z{n}) h{n} = Tanh (k{n})
            p{n} = Mul (o{n}, h{n}) q{n} = Mul (z{n}, {state}) c{n} = Add (p{n}, q{n})"
        )
    }

    const SIGNATURE: &str =
        "g (float[B,2] s, float[B,2] t, float[5,B,2] x, float[2,2] w, float[2,2] v)
        => (float[B,2] u, float[B,2] y, float[5,B,2] z) {
        one = Constant <value_float = 1.0> ()";

    /// Returns a scan of two cells. The second reads `read` of the first.
    fn two_cells(read: &str, directions: &str) -> String {
        let (first, second) = (cell("e", "a", "w", 1), cell(read, "b", "v", 2));
        format!(
            "{SIGNATURE}
            u, y, z = Scan <num_scan_inputs = 1, {directions}
                body = body (float[B,2] a, float[B,2] b, float[B,2] e)
                    => (float[B,2] c1, float[B,2] c2, float[B,2] f) {{
                    {first}
                    {second}
                    f = Exp (c2)
                }}> (s, t, x)
            }}"
        )
    }

    #[test]
    fn each_layer_gets_a_scan() {
        let text = two_cells("c1", "scan_input_directions = [1],");
        let (text, changed, _) = edited(&text, |edit| (PASS.run)(edit).unwrap());
        assert_eq!(changed, Changed::Yes, "{text}");
        let scans: Vec<&str> = text.lines().filter(|line| line.contains("Scan")).collect();
        let [first, second] = *scans.as_slice() else { panic!("{text}") };
        let backwards = "scan_input_directions: ints = [1]";
        let stacked = format!("{backwards}, scan_output_directions: ints = [1]> (s, x)");
        assert!(first.contains("v0, v2 = Scan") && first.contains(&stacked), "{text}");
        assert!(second.contains("y, z = Scan"), "{text}");
        assert!(second.contains(&format!("{backwards}> (t, v2)")), "{text}");
        assert_eq!(text.matches("Tanh").count(), 2, "{text}");
    }

    #[test]
    fn layers_that_read_more_than_the_new_state_stay_together() {
        for read in ["a", "k1"] {
            let text = two_cells(read, "");
            passes_to(&PASS, &text, &text);
        }
    }

    #[test]
    fn other_axes_and_states_of_the_step_before_stay() {
        for axes in ["scan_input_axes = [0],", "scan_output_axes = [0],"] {
            let text = two_cells("c1", axes);
            passes_to(&PASS, &text, &text);
        }
        let text = two_cells("c1", "").replace("f = Exp (c2)", "f = Identity (a)");
        passes_to(&PASS, &text, &text);
    }

    #[test]
    fn a_layer_reads_its_own_sequence() {
        let text = two_cells("c1", "")
            .replace("num_scan_inputs = 1", "num_scan_inputs = 2")
            .replace("float[B,2] e)", "float[B,2] d, float[B,2] e)")
            .replace("f = Exp (c2)", "f = Mul (c2, d)")
            .replace("float[5,B,2] x,", "float[5,B,2] x, float[5,B,2] o,")
            .replace("(s, t, x)", "(s, t, o, x)");
        let (text, changed, _) = edited(&text, |edit| (PASS.run)(edit).unwrap());
        assert_eq!(changed, Changed::Yes, "{text}");
        assert!(text.contains("(s, x)") && text.contains("(t, o, v2)"), "{text}");
    }
}
