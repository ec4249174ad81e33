//! Chooses one layout for the nodes between convolutions. JAX's networks keep channels last and
//! ONNX's operators expect them second, so every convolution arrives between two transposes.
//! Operators that work in either layout are moved to the other side of their transposes if that
//! reduces data movement.
//!
//! For each order of axes that a block transposes to, every node that supports it either stays or
//! moves. A transpose is needed between a node that stays and a node that moves, and between a
//! moving node and one that cannot move. Existing transposes vanish where both sides agree. The
//! cheapest choice is a minimum cut of this network. At equal cost, nodes that follow a convolution
//! stay with it, so that its bias and its normalisation can be fused into it.
//!
//! A product of each pixel's channels with a parameter can also move. It becomes a convolution,
//! which is slightly faster in some targets and has the layout of the other convolutions. If a batch
//! norm follows, it may even move on its own, because runtimes fuse the norm into a convolution
//! but not into a product.

mod convolution;
mod cut;
mod relay;

use onnx::operators::Axes;
use onnx::{BlockId, Graph, Node, NodeId, Use, Value, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use tensor::Type;

use self::convolution::{Convolution, convolves, order_for_norm};
use self::cut::{MOVES, NEVER, Network, STAYS, Vertex};
use crate::movement::cost::{self, elements};
use crate::movement::{Atoms, AxisMap, Change, Movement, Pushed, push};
use crate::targets::Convolutions;
use crate::{Changed, Editor, Error, Form, Pass};

pub(crate) const PASS: Pass = Pass { name: "layout", run };

/// The operator that products become.
pub(crate) const CONVOLUTION: &str = "Conv";

/// The resolution of costs: the number of units per element.
const SHARE: u64 = 1 << 16;
/// The upper bound for the number of elements of a value.
const MOST: u64 = 1 << 34;

/// The maximum number of nodes between an operator with a fixed layout and a result that still
/// belongs to it.
const REACH: usize = 8;

/// The operators with a fixed layout.
pub(crate) const ANCHORS: &[&str] = &[
    "AveragePool",
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "InstanceNormalization",
    "LpPool",
    "MaxPool",
];

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    for block in edit.graph().live_blocks() {
        for order in orders(edit, block) {
            let moving = moving(edit, block, &order);
            if !moving.is_empty() {
                changed |= relay::relay(edit, &order, moving)?;
            }
        }
    }
    Ok(changed)
}

/// Returns the speed of convolutions if products may become convolutions.
fn convolutions(edit: &Editor<'_>) -> Option<Convolutions> {
    let forms = edit.forms();
    let may = forms.convolves && forms.of(CONVOLUTION) != Form::Elementary;
    forms.target.convolutions.filter(|_| may)
}

/// Returns the orders that a block transposes to or from, most frequent first, and the orders in
/// which a product followed by a norm would be a convolution.
fn orders(edit: &Editor<'_>, block: BlockId) -> Vec<AxisMap> {
    let (graph, convolutions) = (edit.graph(), convolutions(edit));
    let mut counts: FxHashMap<AxisMap, usize> = FxHashMap::default();
    for node in graph.nodes_of(block).map(|id| graph.node(id)) {
        if let Some(order) = AxisMap::of(graph, node) {
            *counts.entry(order.inverse()).or_default() += 0;
            *counts.entry(order).or_default() += 1;
        } else if let Some(convolutions) = convolutions
            && let Some(order) = order_for_norm(graph, node, convolutions)
        {
            counts.entry(order).or_default();
        }
    }
    let mut orders: Vec<_> = counts.into_iter().collect();
    orders.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    orders.into_iter().map(|(order, _)| order).collect()
}

/// Returns the cost of transposing a value.
fn cost(ty: &Type, order: &AxisMap) -> u64 {
    cost::of_transpose(&ty.shape, order).min(MOST) * SHARE
}

/// The changes that let a node work on transposed operands.
struct Move {
    pushed: Pushed,
    /// The gain of a product that becomes a convolution.
    convolution: Option<Convolution>,
}

impl Move {
    /// Returns the changes that let `node` work on operands transposed to `order`, if it can.
    /// `convolutions` is `None` if products do not become convolutions.
    fn of(
        graph: &Graph,
        node: &Node,
        order: &AxisMap,
        convolutions: Option<Convolutions>,
    ) -> Option<Self> {
        // A quick check, because most nodes are asked about several orders.
        let values = [node.input(0)?, *node.outputs.first()?];
        if values.iter().all(|value| graph.ty(*value).rank() != order.rank()) {
            return None;
        }
        let (pushed, convolution) = match node.operator().axes {
            Axes::MatMul => {
                let convolution = convolves(graph, node, order, convolutions?)?;
                let pushed = Pushed { operands: vec![0], results: None, change: Change::Nothing };
                (pushed, Some(convolution))
            }
            // Kernels normalise along the last axis.
            Axes::Softmax => return None,
            _ => (push(graph, node, order)?, None),
        };
        let fits = pushed.results.as_ref().is_none_or(AxisMap::is_identity);
        fits.then_some(Self { pushed, convolution })
    }

    /// Returns `true` if the results are transposed as well.
    fn transposes_results(&self) -> bool {
        self.pushed.results.is_none()
    }

    /// Returns `true` if the node itself stays the same.
    fn changes_nothing(&self) -> bool {
        self.convolution.is_none() && matches!(self.pushed.change, Change::Nothing)
    }

    /// Returns `true` if a reduction combines contiguous elements that would no longer be contiguous.
    fn scatters(&self, graph: &Graph, node: &Node, order: &AxisMap) -> bool {
        let Change::Operand(..) = self.pushed.change else { return false };
        let (now, then) = (order.rank() - 1, order.sources()[order.rank() - 1]);
        let reduced = graph.facts().reduced_axes(node);
        reduced.is_some_and(|axes| axes.contains(&now) && !axes.contains(&then))
    }
}

/// A node that can move.
struct Candidate {
    id: NodeId,
    movement: Move,
    vertex: Vertex,
}

/// Returns the nodes of a block that are to work on transposed operands, in order.
fn moving(edit: &Editor<'_>, block: BlockId, order: &AxisMap) -> Vec<(NodeId, Move)> {
    let (graph, convolutions) = (edit.graph(), convolutions(edit));
    let mut network = Network::new();
    let mut candidates = Vec::new();
    let mut settled = Settled::default();
    let mut weights: FxHashMap<ValueId, bool> = FxHashMap::default();
    for id in graph.nodes_of(block) {
        if settled.add(graph, id) {
            continue;
        }
        let movement = Move::of(graph, graph.node(id), order, convolutions);
        let Some(movement) = movement else { continue };
        if let (Some(_), Some(weight)) = (movement.convolution, graph.node(id).input(1)) {
            let can_move = || weight_can_move(graph, block, weight, order, convolutions);
            if !*weights.entry(weight).or_insert_with(can_move) {
                continue;
            }
        }
        candidates.push(Candidate { id, movement, vertex: network.vertex() });
    }
    let by_id = candidates.iter().map(|candidate| (candidate.id, candidate)).collect();
    let mut costs = Costs { graph, block, order, by_id, settled, network, gains: false };
    costs.settle(&candidates);
    if !costs.gains {
        return Vec::new();
    }
    let moves = costs.network.moving();
    let chosen = candidates.into_iter().filter(|candidate| moves[candidate.vertex]);
    chosen.map(|candidate| (candidate.id, candidate.movement)).collect()
}

/// Returns `true` if the weight of a product is a parameter that is only read in this layout.
fn weight_can_move(
    graph: &Graph,
    block: BlockId,
    weight: ValueId,
    order: &AxisMap,
    convolutions: Option<Convolutions>,
) -> bool {
    let moves = |place: Use| {
        let Use::Operand(id, 1) = place else { return false };
        let node = graph.node(id);
        let movement = Move::of(graph, node, order, convolutions);
        let movement = movement.filter(|_| node.block() == block);
        movement.is_some_and(|movement| movement.convolution.is_some())
    };
    graph.value(weight).uses().all(moves) && is_own_parameter(graph, weight)
}

/// Returns `true` if a value is a constant, or a constant in another layout without other
/// consumers.
fn is_own_parameter(graph: &Graph, value: ValueId) -> bool {
    let mut value = value;
    while let Some(id) = graph.producer(value) {
        let node = graph.node(id);
        let source = node.input(0).filter(|_| node.is("Transpose") || node.is("Reshape"));
        let Some(source) = source.filter(|v| graph.value(*v).uses().count() == 1) else {
            return false;
        };
        value = source;
    }
    graph.tensor(value).is_some()
}

/// The values that depend on constants only. They are computed at export, in any order of axes.
#[derive(Default)]
struct Settled(FxHashSet<ValueId>);

impl Settled {
    /// Adds the results of `node` if they depend on constants only, and returns `true` in that
    /// case. Must be called in order of execution.
    fn add(&mut self, graph: &Graph, node: NodeId) -> bool {
        let node = graph.node(node);
        let mut operands = node.inputs.iter().flatten();
        let settled = node.blocks().next().is_none()
            && !node.inputs.is_empty()
            && operands.all(|value| self.contains(graph, *value));
        if settled {
            self.0.extend(&node.outputs);
        }
        settled
    }

    fn contains(&self, graph: &Graph, value: ValueId) -> bool {
        graph.tensor(value).is_some() || self.0.contains(&value)
    }
}

struct Costs<'a> {
    graph: &'a Graph,
    block: BlockId,
    order: &'a AxisMap,
    /// The nodes that can move.
    by_id: FxHashMap<NodeId, &'a Candidate>,
    settled: Settled,
    network: Network,
    /// `true` if moving anything could save cost.
    gains: bool,
}

/// The consumers of a value.
#[derive(Default)]
struct Readers {
    /// The nodes that can move.
    candidates: Vec<Vertex>,
    /// `true` if a transpose to the order in question reads the value.
    transposed: bool,
    /// `true` if a chain reads the value that would need no transpose if the value were in the order
    /// in question.
    absorbed: bool,
    /// `true` if a consumer needs the current order.
    others: bool,
}

impl Costs<'_> {
    fn settle(&mut self, candidates: &[Candidate]) {
        let mut seen: FxHashSet<ValueId> = FxHashSet::default();
        self.products(candidates);
        for candidate in candidates {
            let node = self.graph.node(candidate.id);
            if candidate.movement.scatters(self.graph, node, self.order) {
                self.network.edge(STAYS, candidate.vertex, cost::RENAME * SHARE);
            }
            if candidate.movement.transposes_results() {
                for &value in &node.outputs {
                    self.result(value, candidate.vertex);
                    seen.insert(value);
                }
            }
        }
        for candidate in candidates {
            let node = self.graph.node(candidate.id);
            for value in candidate.movement.pushed.operands.iter().filter_map(|&i| node.input(i)) {
                if self.settled.contains(self.graph, value) {
                    continue;
                }
                if self.graph.ty(value).rank() < self.order.rank() {
                    let ty = relay::widened(self.graph.ty(value), self.order.rank());
                    self.network.edge(STAYS, candidate.vertex, cost(&ty, self.order));
                } else if seen.insert(value) {
                    self.operand(value);
                }
            }
        }
        self.prefer();
    }

    /// Makes products prefer to move, and products with the same weight move together.
    fn products(&mut self, candidates: &[Candidate]) {
        let mut others: FxHashMap<ValueId, Vertex> = FxHashMap::default();
        for candidate in candidates {
            let node = self.graph.node(candidate.id);
            let (Some(convolution), Some(image), Some(weight)) =
                (candidate.movement.convolution, node.input(0), node.input(1))
            else {
                continue;
            };
            let count = |value: ValueId| elements(&self.graph.ty(value).shape).min(MOST);
            let (before, after) = (count(image), count(node.outputs[0]));
            let faster = u64::from(convolution.in_blocks) * before.min(after);
            let Convolutions { gain, pass_over, narrow, .. } = convolution.speed;
            let gain = faster * SHARE / gain.1 * gain.0;
            let channels = elements(&self.graph.ty(weight).shape[..1]);
            let passes = after * convolution.norm * SHARE / pass_over.1 * pass_over.0;
            let saved = passes / channels.max(narrow) * narrow;
            self.network.edge(candidate.vertex, MOVES, gain.max(saved));
            self.gains |= convolution.norm > 0;
            if let Some(other) = others.insert(weight, candidate.vertex) {
                self.network.edge(candidate.vertex, other, NEVER);
                self.network.edge(other, candidate.vertex, NEVER);
            }
        }
    }

    /// Makes nodes that follow an operator with a fixed layout prefer to move.
    fn prefer(&mut self) {
        let back = self.order.inverse();
        let anchored = |id: &NodeId| {
            let node = self.graph.node(*id);
            back.is_made_by(self.graph, node)
                && node.input(0).is_some_and(|value| self.is_anchored(value))
        };
        let mut values: Vec<ValueId> = self
            .graph
            .nodes_of(self.block)
            .filter(anchored)
            .map(|id| self.graph.node(id).outputs[0])
            .collect();
        let mut seen = FxHashSet::default();
        while let Some(value) = values.pop() {
            for place in self.graph.value(value).uses() {
                let Use::Operand(id, _) = place else { continue };
                let Some(candidate) = self.by_id.get(&id) else { continue };
                // A reduction works better where its axes are adjacent.
                if candidate.movement.changes_nothing() && seen.insert(id) {
                    self.network.edge(candidate.vertex, MOVES, 1);
                    self.gains = true;
                    values.extend(&self.graph.node(id).outputs);
                }
            }
        }
    }

    fn readers(&self, value: ValueId) -> Readers {
        let mut readers = Readers::default();
        for place in self.graph.value(value).uses() {
            let Use::Operand(id, index) = place else {
                readers.others = true;
                continue;
            };
            if let Some(candidate) = self.by_id.get(&id)
                && candidate.movement.pushed.operands.contains(&index)
            {
                if readers.candidates.last() != Some(&candidate.vertex) {
                    readers.candidates.push(candidate.vertex);
                }
                continue;
            }
            let node = self.graph.node(id);
            let is_here = node.block() == self.block;
            let [now, then] = self.transposes_behind(value, id);
            if !now && then {
                readers.others = true;
            } else if is_here && self.order.is_made_by(self.graph, node) {
                readers.transposed = true;
            } else if now && !then {
                readers.absorbed = true;
            } else if !is_here || AxisMap::of(self.graph, node).is_none() {
                // Two consecutive transposes become one, regardless of the first.
                readers.others = true;
            }
        }
        readers
    }

    /// Returns `true` if the reshapes and transposes of `value`, from the node `id` on, need a
    /// transpose now, and if they would if the value were in the order in question. Without a reshape
    /// among them, both are `false`.
    fn transposes_behind(&self, value: ValueId, id: NodeId) -> [bool; 2] {
        let (mut nodes, mut next) = (Vec::new(), Some(id));
        while nodes.len() < REACH
            && let Some(id) = next
            && let node = self.graph.node(id)
            && node.is_movement()
            && node.block() == self.block
        {
            nodes.push(id);
            let result = node.outputs.first().map(|result| self.graph.value(*result));
            next = result.and_then(Value::only_consumer).map(|(reader, _)| reader);
        }
        let is_transpose = |id: &NodeId| self.graph.node(*id).is("Transpose");
        let counts = nodes.iter().filter(|id| is_transpose(id)).count();
        if counts == 0 || counts == nodes.len() {
            return [false; 2];
        }
        let Ok((atoms, from, to)) = Atoms::moved(self.graph, value, &nodes) else {
            return [false; 2];
        };
        let (now, to) = (atoms.layout(from), atoms.layout(to));
        [now, &self.order.apply(now)].map(|from| {
            let plan = atoms.plan(from, to);
            plan.is_none_or(|plan| plan.iter().any(|step| matches!(step, Movement::Transpose(_))))
        })
    }

    /// Adds the costs of a value that the movable node at `vertex` computes.
    fn result(&mut self, value: ValueId, vertex: Vertex) {
        let readers = self.readers(value);
        let cost = cost(self.graph.ty(value), self.order);
        if readers.transposed || readers.absorbed {
            self.gains = true;
            self.network.edge(vertex, MOVES, cost);
        } else {
            self.network.if_any_moves(vertex, &readers.candidates, cost);
        }
        if readers.others {
            self.network.edge(STAYS, vertex, cost);
        } else {
            self.network.if_any_stays(&readers.candidates, vertex, cost);
        }
    }

    /// Adds the costs of a value that another node computes.
    fn operand(&mut self, value: ValueId) {
        let readers = self.readers(value);
        let cost = cost(self.graph.ty(value), self.order);
        let producer = self.graph.producer(value).map(|id| self.graph.node(id));
        let back = self.order.inverse();
        let opposite = producer.is_some_and(|node| back.is_made_by(self.graph, node));
        let is_transposed =
            opposite || producer.and_then(|node| AxisMap::of(self.graph, node)).is_some();
        let is_read = readers.others || readers.transposed || readers.absorbed;
        if is_transposed && !is_read {
            self.gains |= opposite;
            self.network.if_any_stays(&readers.candidates, MOVES, cost);
        }
        if !opposite && !readers.transposed {
            self.network.if_any_moves(STAYS, &readers.candidates, cost);
        }
    }

    /// Returns `true` if `value` is the result of an operator with a fixed layout, or of a node
    /// that follows one.
    fn is_anchored(&self, value: ValueId) -> bool {
        let mut value = value;
        for _ in 0..REACH {
            let Some(id) = self.graph.producer(value) else { return false };
            let node = self.graph.node(id);
            if ANCHORS.contains(&node.op.name) && node.op.domain.is_empty() {
                return true;
            }
            let movement = Move::of(self.graph, node, self.order, None);
            if !movement.is_some_and(|movement| movement.changes_nothing()) {
                return false;
            }
            let mut operands = node.inputs.iter().flatten();
            let open = operands.find(|value| !self.settled.contains(self.graph, **value));
            let Some(next) = open else { return false };
            value = *next;
        }
        false
    }
}

#[cfg(test)]
mod tests;
