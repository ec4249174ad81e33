//! Two layers that read the same sequence, one forwards and one backwards, with concatenated
//! results → one bidirectional layer.
//!
//! Both forms give the same bits, and one node takes as long as two.

use onnx::{Attr, Attrs, Builder, Graph, Node, NodeId, Use, ValueId, attrs};
use tensor::Tensor;

use super::weights::name_of;
use crate::{Changed, Editor, Error, Pass, Problem};

pub(crate) const PASS: Pass = Pass { name: "both_directions", run };

/// The layers and their names in reports.
const LAYERS: [(&str, &str); 3] =
    [("GRU", "bidirectional GRU"), ("LSTM", "bidirectional LSTM"), ("RNN", "bidirectional RNN")];

/// The weight operands.
const WEIGHTS: [(usize, &str); 3] = [(1, "W"), (2, "R"), (3, "B")];

/// The initial-state operands.
const STATES: [usize; 2] = [5, 6];

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    let nodes = edit.graph().all_nodes();
    for id in nodes {
        let Some(pair) = Pair::at(edit.graph(), id) else { continue };
        match pair.plan(edit.graph()) {
            Ok(plan) => {
                if !edit.spend(PASS.name) {
                    return Ok(changed);
                }
                pair.join(edit, &plan)?;
                changed = Changed::Yes;
            }
            Err(reason) => edit.miss(pair.forth, pair.title, reason),
        }
    }
    Ok(changed)
}

/// Two layers whose results are concatenated.
struct Pair {
    title: &'static str,
    forth: NodeId,
    back: NodeId,
    /// `true` if the results of the backward layer come first.
    is_swapped: bool,
}

/// The use of a result of both layers.
enum Fate {
    Unused,
    /// A `Concat` along the last axis, after the given axes were dropped.
    Joined(NodeId, Vec<i64>),
    /// The directions are read separately.
    Apart,
}

/// The plan for replacing two layers by one.
struct Plan {
    /// The earlier layer.
    first: NodeId,
    weights: Vec<Option<(Option<String>, Tensor)>>,
    /// The initial states, forwards and backwards.
    states: Vec<Option<[State; 2]>>,
    fates: Vec<Fate>,
}

/// An initial state of one direction: the operand itself, or the source of an `Unsqueeze` and its
/// axes.
#[derive(Clone, Copy)]
struct State {
    value: ValueId,
    axes: Option<ValueId>,
}

/// Returns the layer that computes `value` through a `Squeeze`, and the index of the result.
fn layer_of(graph: &Graph, value: ValueId) -> Option<(NodeId, usize)> {
    let squeeze = graph.node(graph.producer(value)?);
    let result = squeeze.input(0).filter(|_| squeeze.is("Squeeze"))?;
    let id = graph.producer(result)?;
    let node = graph.node(id);
    let is_layer = LAYERS.iter().any(|(op, _)| node.is(op));
    Some((id, node.outputs.iter().position(|v| *v == result)?)).filter(|_| is_layer)
}

impl Pair {
    fn at(graph: &Graph, concat: NodeId) -> Option<Self> {
        let node = graph.get(concat).filter(|node| node.is("Concat"))?;
        let [Some(a), Some(b)] = *node.inputs.as_slice() else { return None };
        let ((a, i), (b, j)) = (layer_of(graph, a)?, layer_of(graph, b)?);
        let (one, other) = (graph.node(a), graph.node(b));
        let is_last = node.int("axis", 0) == -1
            || node.int("axis", 0) + 1 == graph.ty(node.outputs[0]).rank() as i64;
        if one.op != other.op || one.block() != other.block() || i != j || !is_last {
            return None;
        }
        let title = LAYERS.iter().find(|(op, _)| one.is(op))?.1;
        match (one.string("direction", "forward"), other.string("direction", "forward")) {
            ("forward", "reverse") => Some(Self { title, forth: a, back: b, is_swapped: false }),
            ("reverse", "forward") => Some(Self { title, forth: b, back: a, is_swapped: true }),
            _ => None,
        }
    }

    fn plan(&self, graph: &Graph) -> Result<Plan, &'static str> {
        let (forth, back) = (graph.node(self.forth), graph.node(self.back));
        if self.is_swapped {
            return Err("the results of the backward direction come first");
        }
        if forth.attr("hidden_size") != back.attr("hidden_size") {
            return Err("its directions have different sizes");
        }
        let rest = |node: &Node| -> Attrs {
            node.attrs.iter().filter(|(name, _)| *name != "direction").cloned().collect()
        };
        if rest(forth) != rest(back) {
            return Err("its directions are different cells");
        }
        if forth.input(0) != back.input(0) {
            return Err("its directions read different inputs");
        }
        let is_before = |one: NodeId, other: NodeId| {
            graph.nodes_of(forth.block()).take_while(|id| *id != other).any(|id| id == one)
        };
        let is_forth = is_before(self.forth, self.back);
        let first = if is_forth { self.forth } else { self.back };
        // Returns `true` if a value is available at the position of the first layer.
        let is_known = |value| match graph.producer(value) {
            Some(id) if graph.node(id).block() == forth.block() => is_before(id, first),
            _ => true,
        };
        let state = |node: &Node, index| {
            let value = node.input(index)?;
            if is_known(value) {
                return Some(State { value, axes: None });
            }
            let unsqueeze = graph.node(graph.producer(value)?);
            let (from, axes) = (unsqueeze.input(0)?, unsqueeze.input(1)?);
            let is_found = unsqueeze.is("Unsqueeze") && is_known(from) && is_known(axes);
            is_found.then_some(State { value: from, axes: Some(axes) })
        };
        let states = STATES.iter().map(|index| match (forth.input(*index), back.input(*index)) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => match (state(forth, *index), state(back, *index)) {
                (Some(a), Some(b)) => Ok(Some([a, b])),
                _ => Err("the initial state of one direction depends on the other"),
            },
            _ => Err("only one of its directions has an initial state"),
        });
        let weights = WEIGHTS.iter().map(|(index, what)| self.weights(graph, *index, what));
        let fates = (0..forth.outputs.len()).map(|index| self.fate(graph, index));
        Ok(Plan {
            first,
            weights: weights.collect::<Result<_, _>>()?,
            states: states.collect::<Result<_, _>>()?,
            fates: fates.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the stacked weights of both directions, and their name.
    fn weights(
        &self,
        graph: &Graph,
        index: usize,
        what: &str,
    ) -> Result<Option<(Option<String>, Tensor)>, &'static str> {
        let of = |id| graph.node(id).input(index);
        let (a, b) = match (of(self.forth), of(self.back)) {
            (None, None) => return Ok(None),
            (Some(a), Some(b)) => (a, b),
            _ => return Err("only one of its directions has biases"),
        };
        let is_ours = |place| match place {
            Use::Operand(reader, _) => reader == self.forth || reader == self.back,
            Use::Output(..) => false,
        };
        if [a, b].iter().any(|v| !graph.value(*v).uses().all(is_ours)) {
            return Err("its weights are read elsewhere as well");
        }
        let computed = "its weights are computed in the model";
        let (one, other) = (graph.tensor(a).ok_or(computed)?, graph.tensor(b).ok_or(computed)?);
        let is_same = one.shape() == other.shape();
        let tensor = one.concatenated(std::slice::from_ref(other)).ok().filter(|_| is_same);
        let tensor = tensor.ok_or("its directions have weights of different shapes")?;
        let names = [a, b].map(|value| graph.value(value).name.as_str());
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        Ok(Some((name_of(&names, what), tensor)))
    }

    fn fate(&self, graph: &Graph, index: usize) -> Result<Fate, &'static str> {
        let of = |id| graph.node(id).outputs[index];
        let (forth, back) = (of(self.forth), of(self.back));
        if !graph.value(forth).is_used() && !graph.value(back).is_used() {
            return Ok(Fate::Unused);
        }
        let joined = || {
            let only_reader = |value| Some(graph.value(value).only_consumer()?.0);
            let (squeeze, other) = (only_reader(forth)?, only_reader(back)?);
            let (one, two) = (graph.node(squeeze), graph.node(other));
            let concat = only_reader(*one.outputs.first()?)?;
            only_reader(*two.outputs.first()?)?;
            let pair = Self::at(graph, concat)?;
            let is_ours = (pair.forth, pair.back) == (self.forth, self.back) && !pair.is_swapped;
            let axes = |node: &Node| graph.constant(node.input(1)?)?.to_i64s();
            let is_same = one.is("Squeeze") && axes(one) == axes(two);
            Some(Fate::Joined(concat, axes(one)?)).filter(|_| is_ours && is_same)
        };
        match (joined(), index) {
            (Some(fate), _) => Ok(fate),
            // The sequences would have to be split again.
            (None, 0) => Err("the results of one direction are read on their own"),
            (None, _) => Ok(Fate::Apart),
        }
    }

    /// Replaces both layers by one.
    fn join(&self, edit: &mut Editor<'_>, plan: &Plan) -> Result<(), Error> {
        let forth = edit.graph().node(self.forth).clone();
        let block = edit.graph().node(plan.first).block();
        let mut builder = edit.builder_at(PASS.name, forth.origin, block, Some(plan.first));
        let failed = |error| Error {
            rewrite: PASS.name,
            origin: Some(forth.origin),
            problem: Problem::Node(error),
        };
        let made = emit(&mut builder, &forth, plan).map_err(failed)?;
        let both = || plan.fates.iter().zip(&made);
        for (fate, Results { values, nodes }) in both() {
            if let (Fate::Joined(concat, _), Some(value)) = (fate, values.last()) {
                edit.replace(PASS.name, *concat, &[*value], nodes)?;
            }
        }
        let apart = || both().filter(|(fate, _)| matches!(fate, Fate::Apart));
        let nodes: Vec<NodeId> = apart().flat_map(|(_, made)| made.nodes.clone()).collect();
        for (direction, id) in [self.forth, self.back].into_iter().enumerate() {
            // The layer no longer exists if all its results were joined.
            let Some(node) = edit.graph().get(id) else { continue };
            let with = node.outputs.iter().zip(both()).map(|(old, (fate, made))| match fate {
                Fate::Apart => made.values.get(direction).unwrap_or(old),
                Fate::Unused | Fate::Joined(..) => old,
            });
            let with: Vec<ValueId> = with.copied().collect();
            edit.replace(PASS.name, id, &with, &nodes)?;
        }
        Ok(())
    }
}

/// The replacement of a result of both layers: one value, or one per direction.
struct Results {
    values: Vec<ValueId>,
    nodes: Vec<NodeId>,
}

/// Emits the layer and the nodes that adapt its results.
fn emit(builder: &mut Builder<'_>, forth: &Node, plan: &Plan) -> onnx::Result<Vec<Results>> {
    let mut inputs = vec![forth.input(0)];
    let mut shared = Vec::new();
    for weights in &plan.weights {
        inputs.push(weights.as_ref().map(|(name, tensor)| {
            builder.graph_mut().add_parameter(name.clone().unwrap_or_default(), tensor.clone())
        }));
    }
    inputs.push(None);
    for states in &plan.states {
        let Some(states) = states else {
            inputs.push(None);
            continue;
        };
        let mut parts = Vec::new();
        for State { value, axes } in states {
            parts.push(match axes {
                Some(axes) => {
                    let part = builder.op("Unsqueeze", &[*value, *axes], Attrs::new())?;
                    shared.push(part);
                    part
                }
                None => *value,
            });
        }
        let both = builder.op("Concat", &parts, attrs! { axis: 0 })?;
        shared.push(both);
        inputs.push(Some(both));
    }
    while inputs.last() == Some(&None) {
        inputs.pop();
    }
    let mut attrs: Attrs = forth.attrs.clone();
    attrs.retain(|(name, _)| *name != "direction");
    // Activations are listed per direction.
    for (_, attr) in &mut attrs {
        if let Attr::Strings(names) = attr {
            names.extend(names.clone());
        }
    }
    attrs.extend(attrs! { direction: "bidirectional" });
    let at = std::panic::Location::caller();
    let results = builder.emit(forth.op, inputs, attrs, forth.outputs.len(), at)?;
    shared.extend(results.first());
    let mut made = Vec::new();
    for (index, (result, fate)) in results.into_iter().zip(&plan.fates).enumerate() {
        let values = match fate {
            Fate::Unused => Vec::new(),
            Fate::Joined(_, dropped) => joined(builder, result, index, dropped)?,
            Fate::Apart => {
                let sizes = builder.i64s(&[1, 1]);
                builder.op_many("Split", &[result, sizes], attrs! { axis: 0 }, 2)?
            }
        };
        let own = if matches!(fate, Fate::Apart) { &values[..1] } else { &values };
        let producers = shared.iter().chain(own).filter_map(|v| builder.graph().producer(*v));
        made.push(Results { nodes: producers.collect(), values });
    }
    Ok(made)
}

/// Places the directions of a result next to each other in its last axis. Returns the values of all
/// steps; the last one is the result.
fn joined(
    builder: &mut Builder<'_>,
    result: ValueId,
    index: usize,
    dropped: &[i64],
) -> onnx::Result<Vec<ValueId>> {
    // The directions are the second axis of a sequence and the first axis of a state.
    let (directions, batch) = if index == 0 { (1, 2) } else { (0, 1) };
    let mut values = Vec::new();
    let mut value = result;
    let is_batched = !dropped.contains(&batch);
    if is_batched {
        let perm: &[usize] = if index == 0 { &[0, 2, 1, 3] } else { &[1, 0, 2] };
        value = builder.transpose(value, perm)?;
        values.push(value);
    }
    let units = builder.shape(result).last().and_then(tensor::Dim::as_known);
    let units = units.ok_or_else(|| onnx::Error::Graph("a layer without a size".to_owned()))?;
    // Zeros preserve the leading sizes.
    let mut sizes = vec![0; usize::from(is_batched) + directions];
    sizes.push(2 * units);
    let sizes = builder.i64s(&sizes);
    values.push(builder.op("Reshape", &[value, sizes], Attrs::new())?);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::PASS;
    use crate::testing::passes_to;

    fn layers(back: &str, results: &str, rest: &str) -> String {
        format!(
            "g (float[T,B,1] x) => ({results})
            <float[1,1,1] \"enc.f.W\" = {{1}}, float[1,1,1] \"enc.b.W\" = {{2}},
             float[1,1,1] \"enc.f.R\" = {{3}}, float[1,1,1] \"enc.b.R\" = {{4}}> {{
                one = Constant <value_ints = [1]> ()
                none = Constant <value_ints = [0]> ()
                f, fh = RNN <hidden_size = 1> (x, \"enc.f.W\", \"enc.f.R\")
                fs = Squeeze (f, one)
                b, bh = RNN <hidden_size = 1, direction = \"{back}\"> (x, \"enc.b.W\", \"enc.b.R\")
                bs = Squeeze (b, one)
                {rest}
            }}"
        )
    }

    const ONE: &str = "<float[2,1,1] \"enc.W\" = {1, 2}, float[2,1,1] \"enc.R\" = {3, 4}>";

    #[test]
    fn two_layers_become_one() {
        passes_to(
            &PASS,
            &layers("reverse", "float[T,B,2] y", "y = Concat <axis = -1> (fs, bs)"),
            &format!(
                "g (float[T,B,1] x) => (float[T,B,2] y) {ONE} {{
                    v0, v1 = RNN <hidden_size = 1, direction = \"bidirectional\"> (x, \"enc.W\", \"enc.R\")
                    v2 = Transpose <perm = [0, 2, 1, 3]> (v0)
                    s = Constant <value_ints = [0, 0, 2]> ()
                    y = Reshape (v2, s)
                }}"
            ),
        );
    }

    #[test]
    fn states_that_are_read_separately_are_split() {
        let rest = "y = Concat <axis = 2> (fs, bs)
            h = Squeeze (fh, none)
            i = Squeeze (bh, none)";
        passes_to(
            &PASS,
            &layers("reverse", "float[T,B,2] y, float[B,1] h, float[B,1] i", rest),
            &format!(
                "g (float[T,B,1] x) => (float[T,B,2] y, float[B,1] h, float[B,1] i) {ONE} {{
                    v0, v1 = RNN <hidden_size = 1, direction = \"bidirectional\"> (x, \"enc.W\", \"enc.R\")
                    v2 = Transpose <perm = [0, 2, 1, 3]> (v0)
                    s = Constant <value_ints = [0, 0, 2]> ()
                    y = Reshape (v2, s)
                    ones = Constant <value_ints = [1, 1]> ()
                    fh, bh = Split <axis = 0> (v1, ones)
                    none = Constant <value_ints = [0]> ()
                    h = Squeeze (fh, none)
                    i = Squeeze (bh, none)
                }}"
            ),
        );
    }

    #[test]
    fn incompatible_layers_are_unchanged() {
        let stay = |text: &str| passes_to(&PASS, text, text);
        stay(&layers("forward", "float[T,B,2] y", "y = Concat <axis = -1> (fs, bs)"));
        stay(&layers("reverse", "float[T,B,2] y", "y = Concat <axis = -1> (bs, fs)"));
        stay(&layers("reverse", "float[T,C,1] y", "y = Concat <axis = 1> (fs, bs)"));
        let twice = "y = Concat <axis = -1> (fs, bs)\n z = Neg (bs)";
        stay(&layers("reverse", "float[T,B,2] y, float[T,B,1] z", twice));
    }

    #[test]
    fn layers_with_other_readers_stay() {
        let joined = "y = Concat <axis = -1> (fs, bs)";
        let both = layers("reverse", "float[T,B,2] y", joined);
        for text in [
            // The directions follow one another.
            layers("reverse", "float[R,B,1] y", "y = Concat <axis = 0> (fs, bs)"),
            // One direction is also read on its own.
            layers("reverse", "float[T,B,2] y, float[T,B,1] z", &format!("{joined} z = Exp (fs)")),
            layers("reverse", "float[T,B,2] y, float[T,B,1] z", &format!("{joined} z = Exp (bs)")),
            // The backward layer reads the result of the forward one, or starts from its state.
            both.replace("direction = \"reverse\"> (x,", "direction = \"reverse\"> (fs,"),
            both.replace("(x, \"enc.b.W\", \"enc.b.R\")", "(x, \"enc.b.W\", \"enc.b.R\", , , fh)"),
            // Another cell.
            both.replace("b, bh = RNN", "b, bh = GRU")
                .replace("float[1,1,1] \"enc.b.W\" = {2}", "float[1,3,1] \"enc.b.W\" = {2, 2, 2}")
                .replace("float[1,1,1] \"enc.b.R\" = {4}", "float[1,3,1] \"enc.b.R\" = {4, 4, 4}"),
            // Only one of them has a state, or other activations.
            both.replace("float[T,B,1] x)", "float[T,B,1] x, float[1,B,1] s)")
                .replace("(x, \"enc.b.W\", \"enc.b.R\")", "(x, \"enc.b.W\", \"enc.b.R\", , , s)"),
            both.replace(
                "direction = \"reverse\"",
                "activations = [\"Relu\"], direction = \"reverse\"",
            ),
        ] {
            passes_to(&PASS, &text, &text);
        }
    }

    #[test]
    fn the_state_of_one_direction_is_split_off() {
        let text = layers(
            "reverse",
            "float[T,B,2] y, float[1,B,1] z",
            "y = Concat <axis = -1> (fs, bs) z = Exp (fh)",
        );
        let (text, ..) = crate::testing::edited(&text, |edit| (PASS.run)(edit).unwrap());
        assert!(text.contains("bidirectional") && text.contains("Split"), "{text}");
    }
}
