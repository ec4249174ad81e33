//! Plans the float type of each node.

use onnx::operators::{PrecisionClass, Trait};
use onnx::schema::{Arity, Binding, Schema, Types};
use onnx::{Graph, Node, NodeId, Use, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tensor::DType;

use super::range::{fits, is_finite};
use super::{Precision, last_products};
use crate::Target;

/// The nodes that compute in a small float, and their types.
pub(super) type Plan = FxHashMap<NodeId, DType>;

/// The state of an operand of a node that would compute in a small float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    /// A value that already has the small type.
    Small,
    /// A constant that the small type can represent.
    Fits,
    /// A value that would have to be rounded.
    Wide,
}

/// Plans the type of each node from the requested precisions. Products come first. Nodes between
/// two products that only process their results follow them.
pub(super) fn plan(
    graph: &Graph,
    asked: &FxHashMap<NodeId, Precision>,
    opset: i64,
    target: Target,
) -> Plan {
    let last = last_products::find(graph);
    let mut planner = Planner { graph, asked, last, opset, target, plan: Plan::default() };
    // Bodies come after their owners, so all operands of a node are decided before the node.
    let nodes = graph.all_nodes();
    for id in &nodes {
        planner.forwards(*id);
    }
    for id in nodes.iter().rev() {
        planner.backwards(*id);
    }
    planner.plan
}

/// The reasons why none of the given nodes computes in a small type.
pub(super) struct Obstacles {
    /// There are products, but no other products follow them.
    pub(super) last: bool,
    /// An operator that the target has no kernels for.
    pub(super) missing: Option<&'static str>,
}

pub(super) fn obstacles(
    graph: &Graph,
    nodes: &[NodeId],
    dtype: DType,
    opset: i64,
    target: Target,
) -> Obstacles {
    let asked = FxHashMap::default();
    let last = last_products::find(graph);
    let planner = Planner { graph, asked: &asked, last, opset, target, plan: Plan::default() };
    let products =
        nodes.iter().filter(|id| graph.node(**id).precision() == PrecisionClass::Product);
    let runs = |id: &NodeId| {
        let node = graph.node(*id);
        let converted = Converted::of(graph, node, opset);
        converted.is_some_and(|converted| planner.accepts(node, &converted, dtype))
    };
    let (able, unable): (Vec<NodeId>, Vec<NodeId>) = products.copied().partition(runs);
    let missing = unable.first().map(|id| graph.node(*id).op.name);
    Obstacles { last: !able.is_empty(), missing }
}

struct Planner<'a> {
    graph: &'a Graph,
    asked: &'a FxHashMap<NodeId, Precision>,
    last: FxHashSet<NodeId>,
    opset: i64,
    target: Target,
    plan: Plan,
}

impl Planner<'_> {
    /// Plans a node in the small type if its operands are small.
    fn forwards(&mut self, id: NodeId) {
        let Some((dtype, all)) = self.asked(id) else { return };
        let node = self.graph.node(id);
        let Some(converted) = Converted::of(self.graph, node, self.opset) else { return };
        let operands = || converted.operands(node).map(|value| self.operand(node, value, dtype));
        // Rows of a table are small if the target wants all numbers to be.
        let is_table = || {
            let mut operands = converted.operands(node);
            self.target.rounds_once && operands.all(|value| self.graph.parameter(value).is_some())
        };
        let fit = || converted.operands(node).all(|value| self.fits(value, dtype));
        let is_small = match self.precision(node) {
            PrecisionClass::Product => (all || !self.last.contains(&id)) && fit(),
            PrecisionClass::Wide if !all => false,
            PrecisionClass::Follow if is_table() => true,
            PrecisionClass::Light | PrecisionClass::Follow | PrecisionClass::Wide => {
                operands().any(|o| o == Operand::Small) && operands().all(|o| o != Operand::Wide)
            }
        };
        if is_small && self.accepts(node, &converted, dtype) {
            self.plan.insert(id, dtype);
        }
    }

    /// Moves a light node back to float32 if all its consumers read float32, because that needs no
    /// more casts, unless the target is as exact in the small type. Plans data movement in the small type if all its consumers read the small type,
    /// so that less data is moved.
    fn backwards(&mut self, id: NodeId) {
        let Some((dtype, all)) = self.asked(id) else { return };
        let node = self.graph.node(id);
        let Some(converted) = Converted::of(self.graph, node, self.opset) else { return };
        let mut uses = node.outputs.iter().flat_map(|value| self.graph.value(*value).uses());
        match (self.precision(node), self.plan.contains_key(&id)) {
            (PrecisionClass::Light, true)
                if !all
                    && !self.target.rounds_once
                    && !uses.any(|place| self.wants(place, dtype)) =>
            {
                self.plan.remove(&id);
            }
            (PrecisionClass::Follow, false) => {
                let mut operands = converted.operands(node);
                if uses.all(|place| self.wants(place, dtype))
                    && operands.all(|value| self.operand_fits(value, dtype))
                    && self.accepts(node, &converted, dtype)
                {
                    self.plan.insert(id, dtype);
                }
            }
            _ => {}
        }
    }

    /// Returns the precision class of a node. What the target computes in float32 anyway loses nothing
    /// but the digits of its operands.
    fn precision(&self, node: &Node) -> PrecisionClass {
        match node.precision() {
            PrecisionClass::Wide if self.target.rounds_once && node.operator().has(Trait::Sums) => {
                PrecisionClass::Light
            }
            class => class,
        }
    }

    /// Returns the small type that was requested for a node, and `true` if it applies to all
    /// operators.
    fn asked(&self, id: NodeId) -> Option<(DType, bool)> {
        let asked = self.asked.get(&id)?;
        (asked.dtype != DType::F32).then_some((asked.dtype, asked.all))
    }

    /// Returns `true` if a use reads the small type.
    fn wants(&self, place: Use, dtype: DType) -> bool {
        let Use::Operand(id, index) = place else { return false };
        let node = self.graph.node(id);
        if node.is("Cast") {
            return self.graph.ty(node.outputs[0]).dtype == dtype;
        }
        self.plan.get(&id) == Some(&dtype)
            && Converted::of(self.graph, node, self.opset).is_some_and(|c| c.reads(index))
    }

    fn operand(&self, node: &Node, value: ValueId, dtype: DType) -> Operand {
        if let Some(tensor) = self.graph.tensor(value) {
            // Digits of parameters that are too small are lost, as in products. The same holds for
            // sines of small angles.
            let is_linear = self.graph.parameter(value).is_some() || node.is("RotaryEmbedding");
            let fits = match self.target.rounds_once && is_linear {
                true => is_finite(tensor, dtype),
                false => self.operand_fits(value, dtype),
            };
            return if fits { Operand::Fits } else { Operand::Wide };
        }
        let Some(id) = self.graph.producer(value) else { return Operand::Wide };
        // All layers share the cosines and sines, so they are rounded once.
        if self.target.rounds_once && node.is("RotaryEmbedding") && self.is_wave(value) {
            return Operand::Fits;
        }
        let is_small =
            self.plan.get(&id) == Some(&dtype) || widened(self.graph, value, dtype).is_some();
        if is_small { Operand::Small } else { Operand::Wide }
    }

    /// Returns `true` if a value consists of computed cosines or sines.
    fn is_wave(&self, mut value: ValueId) -> bool {
        while let Some(id) = self.graph.producer(value)
            && let node = self.graph.node(id)
            && let Some(operand) = node.input(0)
        {
            if node.is("Cos") || node.is("Sin") {
                return true;
            }
            if !node.operator().selects() {
                return false;
            }
            value = operand;
        }
        false
    }

    /// Returns `true` unless the operand is a constant that the small type cannot represent.
    fn operand_fits(&self, value: ValueId, dtype: DType) -> bool {
        self.graph.tensor(value).is_none_or(|tensor| fits(tensor, dtype))
    }

    /// Does the same for an operand of a product, but does not read parameters. Reading them all
    /// would take long, and their elements are checked when they are written.
    fn fits(&self, value: ValueId, dtype: DType) -> bool {
        self.graph.parameter(value).is_some() || self.operand_fits(value, dtype)
    }

    /// Returns `true` if the target runs a node in the small type.
    fn accepts(&self, node: &Node, converted: &Converted, dtype: DType) -> bool {
        let Ok(binding) = Binding::new(converted.schema, self.graph, node) else { return false };
        let types = binding.types().enumerate();
        let types = types.map(|(i, have)| if converted.has(i) { Types::of(dtype) } else { have });
        let types: SmallVec<[Types; 4]> = types.collect();
        let mut allowed = types.iter().zip(converted.schema.types);
        allowed.all(|(have, constraint)| have.is_subset(constraint.allowed))
            && self.target.runs_as(converted.schema, self.graph, node, &types)
    }
}

/// The type constraints of a node's results, which change with the type that it computes in.
pub(super) struct Converted {
    schema: &'static Schema,
    constraints: SmallVec<[usize; 2]>,
}

impl Converted {
    /// Returns the constraints of a node that computes in float32, or `None` if it has no such
    /// results.
    pub(super) fn of(graph: &Graph, node: &Node, opset: i64) -> Option<Self> {
        let newest = || node.versions().last();
        let schema = node.schema(opset).or_else(newest)?;
        let mut constraints = SmallVec::new();
        for (i, output) in node.outputs.iter().enumerate() {
            let param = schema.output(i)?;
            if matches!(param.arity, Arity::Mixed(_)) {
                return None;
            }
            if graph.ty(*output).dtype == DType::F32 && !constraints.contains(&param.types) {
                constraints.push(param.types);
            }
        }
        // The values of attention, the statistics of batch norms and the operand of a norm may have
        // another type than the result, but runtimes require the same.
        let same = match node.op.name {
            "Attention" => 2..3,
            "BatchNormalization" => 1..5,
            "RMSNormalization" => 0..1,
            _ => 0..0,
        };
        for param in same.filter_map(|index| schema.input(index)) {
            if !constraints.contains(&param.types) {
                constraints.push(param.types);
            }
        }
        (!constraints.is_empty()).then_some(Self { schema, constraints })
    }

    fn has(&self, constraint: usize) -> bool {
        self.constraints.contains(&constraint)
    }

    /// Returns `true` if the operand at `index` is converted.
    pub(super) fn reads(&self, index: usize) -> bool {
        self.schema.input(index).is_some_and(|param| self.has(param.types))
    }

    /// Returns the operands that are converted.
    fn operands<'n>(&'n self, node: &'n Node) -> impl Iterator<Item = ValueId> + use<'n> {
        let inputs = node.inputs.iter().enumerate();
        inputs.filter_map(|(i, value)| value.filter(|_| self.reads(i)))
    }
}

/// Returns the small value that `value` was cast from.
pub(super) fn widened(graph: &Graph, value: ValueId, dtype: DType) -> Option<ValueId> {
    let node = graph.node(graph.producer(value)?);
    let from = node.input(0).filter(|_| node.is("Cast"))?;
    (graph.ty(from).dtype == dtype && graph.ty(value).dtype == DType::F32).then_some(from)
}
