//! Loops: `Loop` and `Scan`, whose bodies carry values between iterations.

use std::ops::Range;

use onnx::{BlockId, Graph, NodeId, Op, Producer, Use, ValueId, collect_operands};

use crate::{Editor, Error};

/// A loop, with the positions of its carried values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) id: NodeId,
    pub(crate) body: BlockId,
    /// The number of carried values.
    pub(crate) carried: usize,
    /// The number of operands, and of body inputs, before the carried values: the number of
    /// iterations and the condition.
    control: usize,
    /// The number of body results before the carried values: the condition.
    condition: usize,
}

/// A value that a loop carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// The value at the start of the first iteration.
    pub(crate) initial: ValueId,
    /// The value at the start of an iteration.
    pub(crate) inside: ValueId,
    /// The value at the end of an iteration, which the next one starts with.
    pub(crate) next: ValueId,
    /// The value after the last iteration.
    pub(crate) result: ValueId,
}

impl Loop {
    /// Returns the loop at `id`.
    pub(crate) fn at(graph: &Graph, id: NodeId) -> Option<Self> {
        let node = graph.get(id)?;
        let body = node.blocks().next()?;
        let (control, condition, carried) = match node.op {
            Op { domain: "", name: "Loop" } => (2, 1, node.inputs.len().checked_sub(2)?),
            Op { domain: "", name: "Scan" } => {
                let scanned = usize::try_from(node.int("num_scan_inputs", 0)).ok()?;
                (0, 0, node.inputs.len().checked_sub(scanned)?)
            }
            _ => return None,
        };
        let block = graph.block(body);
        let is_whole = node.inputs.len() == block.inputs.len()
            && node.outputs.len() + condition == block.outputs().len()
            && node.outputs.len() >= carried
            && node.inputs[control..].iter().all(Option::is_some);
        is_whole.then_some(Self { id, body, carried, control, condition })
    }

    /// Returns all loops, inner before outer. A change to one may remove or change others, so each
    /// must be looked up again before it is processed.
    pub(crate) fn all(graph: &Graph) -> Vec<NodeId> {
        let mut nodes = graph.nodes_with_blocks();
        nodes.retain(|id| Self::at(graph, *id).is_some());
        nodes.reverse();
        nodes
    }

    /// Returns the carried values.
    pub(crate) fn state(&self, graph: &Graph) -> Vec<Carried> {
        let (node, block) = (graph.node(self.id), graph.block(self.body));
        let carried = (0..self.carried).filter_map(|k| {
            Some(Carried {
                initial: node.input(self.control + k)?,
                inside: block.inputs[self.control + k],
                next: block.outputs()[self.condition + k],
                result: node.outputs[k],
            })
        });
        carried.collect()
    }

    /// Returns `true` if the scanned operand at `index` is read from its last row.
    pub(crate) fn reads_backwards(&self, graph: &Graph, index: usize) -> bool {
        self.is_backwards(graph, "scan_input_directions", index)
    }

    /// Returns `true` if the first iteration computes the last row of the stacked result at `index`.
    pub(crate) fn stacks_backwards(&self, graph: &Graph, index: usize) -> bool {
        self.is_backwards(graph, "scan_output_directions", index)
    }

    fn is_backwards(&self, graph: &Graph, directions: &str, index: usize) -> bool {
        graph.node(self.id).ints(directions).is_some_and(|all| all.get(index) == Some(&1))
    }

    /// Returns the results of the body that are not carried: the condition and stacked results.
    pub(crate) fn other_results<'g>(
        &self,
        graph: &'g Graph,
    ) -> impl Iterator<Item = ValueId> + use<'g> {
        let (condition, carried) = (self.condition, self.carried);
        let outputs = graph.block(self.body).outputs();
        outputs[..condition].iter().chain(&outputs[condition + carried..]).copied()
    }

    /// Returns `true` if `value` is computed by the body itself or is one of its inputs.
    pub(crate) fn is_inside(&self, graph: &Graph, value: ValueId) -> bool {
        match graph.value(value).producer() {
            Producer::Node(node, _) => graph.node(*node).block() == self.body,
            Producer::Input(block) => *block == self.body,
            Producer::Constant(_) | Producer::Parameter(_) | Producer::Removed => false,
        }
    }

    /// Returns `true` if the body returns a result of the node.
    pub(crate) fn returns(&self, graph: &Graph, node: NodeId) -> bool {
        let is_returned = |place| matches!(place, Use::Output(block, _) if block == self.body);
        graph.node(node).outputs.iter().any(|v| graph.value(*v).uses().any(is_returned))
    }

    /// Returns the operands of a node of the body, including those of its subgraphs, that vary
    /// between iterations.
    pub(crate) fn varying_operands(&self, graph: &Graph, node: NodeId) -> Vec<ValueId> {
        let mut operands = Vec::new();
        collect_operands(graph, node, &mut operands);
        operands.retain(|value| self.is_inside(graph, *value));
        operands
    }

    /// Rebuilds the loop with the carried values that `is_kept` selects, and `more`: pairs of the
    /// initial and the next value. The results of dropped values must be unread, or are replaced by
    /// their initial values. Returns the values of `more` at the start of an iteration.
    pub(crate) fn carry(
        &self,
        edit: &mut Editor<'_>,
        name: &'static str,
        is_kept: impl Fn(usize) -> bool,
        more: &[(ValueId, ValueId)],
    ) -> Result<Vec<ValueId>, Error> {
        let state = self.state(edit.graph());
        let graph = edit.graph_mut();
        let inside: Vec<_> = more
            .iter()
            .map(|(initial, _)| graph.add_input(self.body, graph.ty(*initial).clone()))
            .collect();
        let carried = self.control..self.control + self.carried;
        let initial = more.iter().map(|(initial, _)| Some(*initial));
        let operands = pick(&graph.node(self.id).inputs, carried.clone(), &is_kept, initial);
        let inputs = &graph.block(self.body).inputs;
        let old = &inputs[..inputs.len() - more.len()];
        let kept_inputs = pick(old, carried, &is_kept, inside.iter().copied());
        let carried = self.condition..self.condition + self.carried;
        let next = more.iter().map(|(_, next)| *next);
        let outputs = pick(graph.block(self.body).outputs(), carried, &is_kept, next);
        graph.set_outputs(self.body, &outputs);
        remove_unread(edit, self.body);
        edit.set_inputs(self.body, kept_inputs);

        // The body moves to the new node. Removing the old one must not remove it.
        let attrs = std::mem::take(edit.attrs_mut(self.id));
        let graph = edit.graph();
        let node = graph.node(self.id);
        let (op, old) = (node.op, node.outputs.clone());
        let types = pick(&old, 0..self.carried, &is_kept, inside.iter().copied());
        let types = types.into_iter().map(|value| graph.ty(value).clone()).collect();
        let new = edit.remake(self.id, (op, operands, attrs), types);
        let mut kept = edit.graph().node(new).outputs.clone().into_iter();
        let result = |(k, carried): (usize, &Carried)| match is_kept(k) {
            true => kept.next(),
            false => Some(carried.initial),
        };
        let mut with: Vec<_> = state.iter().enumerate().filter_map(result).collect();
        with.extend(kept.skip(more.len()));
        edit.replace(name, self.id, &with, &[new])?;
        Ok(inside)
    }
}

/// Returns the items before the `carried` ones, those of them that are kept, `more`, and the items
/// after them.
fn pick<T: Copy>(
    items: &[T],
    carried: Range<usize>,
    is_kept: impl Fn(usize) -> bool,
    more: impl Iterator<Item = T>,
) -> Vec<T> {
    let (before, after) = (&items[..carried.start], &items[carried.end..]);
    let kept = (0..).zip(&items[carried]).filter(|(k, _)| is_kept(*k)).map(|(_, item)| item);
    before.iter().chain(kept).copied().chain(more).chain(after.iter().copied()).collect()
}

/// Removes nodes of a body whose results are not read.
fn remove_unread(edit: &mut Editor<'_>, body: BlockId) {
    let nodes: Vec<_> = edit.graph().nodes_of(body).collect();
    for id in nodes.into_iter().rev() {
        let Some(node) = edit.graph().get(id) else { continue };
        if !node.outputs.iter().any(|value| edit.graph().value(*value).is_used()) {
            edit.remove_dead(id);
        }
    }
}
