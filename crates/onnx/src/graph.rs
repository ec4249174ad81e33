//! The arena: all values, nodes and blocks of one model.
//!
//! A block is the body of the main graph, of a control-flow branch or of a function. Blocks refer
//! to values of enclosing blocks directly, so a weight used in a loop body exists once. Nodes of a
//! block form a linked list: inserting before a node is cheap, and every node's position is
//! explicit. Constants are values without a node.

mod mutators;

use provenance::OriginId;
use rustc_hash::FxHashMap;
use tensor::{DType, Dim, Tensor, Type};

use crate::facts::Memo;
use crate::operators::Operator;
use crate::small_set::SmallSet;
use crate::{Assumption, Assumptions, Attr, Attrs};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// Returns the position in the arena.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            pub(crate) fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }
        }
    };
}

id! {
    /// A value: a result of a node, an input, or a constant.
    ValueId
}
id! {
    /// A node.
    NodeId
}
id! {
    /// A block of nodes.
    BlockId
}

/// An operator: its name and its domain (empty for ONNX's own).
///
/// Names are interned for the life of the process. There are few of them, and copying an `Op` is
/// free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// The operator set's domain.
    pub domain: &'static str,
    /// The operator's name.
    pub name: &'static str,
}

impl Op {
    /// Returns ONNX's own operator `name`.
    pub const fn onnx(name: &'static str) -> Self {
        Self { domain: "", name }
    }
}

/// One operation. It cannot be built without an origin.
#[derive(Clone, Debug)]
pub struct Node {
    /// The operator.
    pub op: Op,
    /// Its operands; `None` for an optional one that is omitted.
    pub inputs: Vec<Option<ValueId>>,
    /// Its results.
    pub outputs: Vec<ValueId>,
    /// Its attributes.
    pub attrs: Attrs,
    /// The origin.
    pub origin: OriginId,
    /// The name it is written under; empty until names are assigned.
    pub name: String,
    /// The row of the operator, which every step of the optimiser asks for.
    operator: &'static Operator,
    block: BlockId,
    previous: Option<NodeId>,
    next: Option<NodeId>,
}

impl Node {
    /// Returns `true` if this is ONNX's own operator `name`.
    pub fn is(&self, name: &str) -> bool {
        self.op.domain.is_empty() && self.op.name == name
    }

    /// Returns the row of the node's operator.
    pub fn operator(&self) -> &'static Operator {
        self.operator
    }

    /// Returns the operand at `index`, if it is present.
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// Returns the attribute `name`.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns the integer attribute `name`, or `default`.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attr(name) {
            Some(Attr::Int(value)) => *value,
            _ => default,
        }
    }

    /// Returns the float attribute `name`, or `default`.
    pub fn float(&self, name: &str, default: f32) -> f64 {
        match self.attr(name) {
            Some(Attr::Float(value)) => f64::from(*value),
            _ => f64::from(default),
        }
    }

    /// Returns the string attribute `name`, or `default`.
    pub fn string<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        match self.attr(name) {
            Some(Attr::String(value)) => value,
            _ => default,
        }
    }

    /// Returns the integer-list attribute `name`.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attr(name) {
            Some(Attr::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns the subgraph attribute `name`.
    pub fn subgraph(&self, name: &str) -> Option<BlockId> {
        match self.attr(name) {
            Some(Attr::Graph(block)) => Some(*block),
            _ => None,
        }
    }

    /// Returns the block that contains the node.
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// Returns the blocks of the subgraph attributes.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> {
        self.attrs.iter().filter_map(|(_, attr)| match attr {
            Attr::Graph(block) => Some(*block),
            _ => None,
        })
    }
}

/// The producer of a value.
#[derive(Clone, Debug)]
pub enum Producer {
    /// The output `usize` of a node.
    Node(NodeId, usize),
    /// An input of a block.
    Input(BlockId),
    /// A constant, whose elements may be relied on.
    Constant(Tensor),
    /// A parameter. The user may replace its elements later, so nothing may be derived from them.
    Parameter(Tensor),
    /// No producer: the value was removed.
    Removed,
}

/// A use of a value, by a node or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// The operand `usize` of a node.
    Operand(NodeId, usize),
    /// The output `usize` of a block.
    Output(BlockId, usize),
}

/// A value with a type: a result of a node, an input, or a constant.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its element type and shape.
    pub ty: Type,
    /// The name it is written under; empty until names are assigned.
    pub name: String,
    /// The elements of an integer vector as dimensions, if they are known.
    pub content: Option<Box<[Dim]>>,
    producer: Producer,
    uses: SmallSet<Use>,
}

impl Value {
    /// Returns the producer.
    pub fn producer(&self) -> &Producer {
        &self.producer
    }

    /// Returns the uses.
    pub fn uses(&self) -> impl ExactSizeIterator<Item = Use> + '_ {
        self.uses.as_slice().iter().copied()
    }

    /// Returns the nodes that read the value, as often as they do.
    pub fn consumers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.uses().filter_map(|place| match place {
            Use::Operand(node, _) => Some(node),
            Use::Output(..) => None,
        })
    }

    /// Returns the only use of the value, if it is an operand: the node and the index.
    pub fn only_consumer(&self) -> Option<(NodeId, usize)> {
        match *self.uses.as_slice() {
            [Use::Operand(node, index)] => Some((node, index)),
            _ => None,
        }
    }

    /// Returns `true` if the value has a use.
    pub fn is_used(&self) -> bool {
        !self.uses.as_slice().is_empty()
    }
}

/// A list of nodes with inputs and outputs.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its formal inputs.
    pub inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    first: Option<NodeId>,
    last: Option<NodeId>,
}

impl Block {
    /// Returns the outputs.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }
}

/// A model-local function.
#[derive(Clone, Debug)]
pub struct Function {
    /// The operator that calls it.
    pub op: Op,
    /// Its body; captures nothing.
    pub body: BlockId,
}

/// All values, nodes and blocks of one model.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The model's name.
    pub name: String,
    /// The model's functions.
    pub functions: Vec<Function>,
    /// The defaults of inputs of the main graph, for running the model without them.
    pub defaults: Vec<(ValueId, Tensor)>,
    /// The assumptions about its values.
    pub assumptions: Assumptions,
    values: Vec<Value>,
    nodes: Vec<Option<Node>>,
    blocks: Vec<Block>,
    small_constants: FxHashMap<(DType, Vec<usize>, Vec<u8>), ValueId>,
    /// The replacement of each value, if replacements are recorded.
    replacements: Option<FxHashMap<ValueId, ValueId>>,
    /// The cached facts about values. Changes of operands, attributes, types or names invalidate them.
    pub(crate) facts: Memo,
}

impl Graph {
    /// The main graph's block.
    pub const MAIN: BlockId = BlockId(0);

    /// Creates an empty model.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            functions: Vec::new(),
            defaults: Vec::new(),
            assumptions: Assumptions::default(),
            values: Vec::new(),
            nodes: Vec::new(),
            blocks: vec![Block::default()],
            small_constants: FxHashMap::default(),
            replacements: None,
            facts: Memo::default(),
        }
    }

    /// Returns the replacement of `value` since recording started, or `value` itself if it was not
    /// replaced.
    pub fn replacement(&self, value: ValueId) -> ValueId {
        let known = self.replacements.as_ref();
        let mut value = value;
        // This ends: when a value replaces another, the record of its own replacement is removed.
        while let Some(next) = known.and_then(|known| known.get(&value)) {
            value = *next;
        }
        value
    }

    /// Returns the value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Returns the input `attention_mask`, [batch, tokens], if it may hide the padding of prompts.
    pub fn mask_of_padding(&self) -> Option<ValueId> {
        let is_mask = |id: &ValueId| {
            let value = self.value(*id);
            value.name == "attention_mask" && value.ty.rank() == 2 && value.ty.dtype.is_integer()
        };
        let is_padded = self.assumptions.contains(Assumption::PaddedPrompts);
        is_padded.then(|| self.block(Self::MAIN).inputs.iter().copied().find(is_mask))?
    }

    /// Returns the type of a value.
    pub fn ty(&self, id: ValueId) -> &Type {
        &self.value(id).ty
    }

    /// Returns the node that is the only consumer of a value.
    pub fn only_reader(&self, id: ValueId) -> Option<&Node> {
        self.value(id).only_consumer().map(|(reader, _)| self.node(reader))
    }

    /// Returns the tensor of a constant, whose elements may be relied on. A parameter is not one.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        match &self.value(id).producer {
            Producer::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the tensor of a parameter, whose elements a person may replace later.
    pub fn parameter(&self, id: ValueId) -> Option<&Tensor> {
        match &self.value(id).producer {
            Producer::Parameter(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the tensor of a constant or of a parameter.
    pub fn tensor(&self, id: ValueId) -> Option<&Tensor> {
        self.constant(id).or_else(|| self.parameter(id))
    }

    /// Returns the node that computes a value.
    pub fn producer(&self, id: ValueId) -> Option<NodeId> {
        match self.value(id).producer {
            Producer::Node(node, _) => Some(node),
            _ => None,
        }
    }

    /// Returns the node behind an id, unless it was removed.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())?.as_ref()
    }

    /// Returns the node behind the id of a node that is in the graph.
    ///
    /// # Panics
    /// If the node was removed; ids come from this graph, so that is a bug of the caller.
    pub fn node(&self, id: NodeId) -> &Node {
        match self.get(id) {
            Some(node) => node,
            #[expect(clippy::panic, reason = "a bug in the caller, not a property of any input")]
            None => panic!("node {} was removed", id.0),
        }
    }

    /// Returns the nodes that read a result of `node`, as often as they do.
    pub fn consumers(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.node(node).outputs.iter().flat_map(|value| self.value(*value).consumers())
    }

    /// Returns the block behind an id.
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.index()]
    }

    /// Returns the nodes of a block, in order.
    pub fn nodes_of(&self, block: BlockId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(self.block(block).first, |id| self.node(*id).next)
    }

    /// Returns all blocks that are reachable from the main graph and the functions, outer before
    /// inner.
    pub fn live_blocks(&self) -> Vec<BlockId> {
        self.visit_nodes(|_, _| {})
    }

    /// Returns the nodes of all reachable blocks.
    pub fn all_nodes(&self) -> Vec<NodeId> {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        self.visit_nodes(|id, _| nodes.push(id));
        nodes
    }

    /// Returns the nodes of all reachable blocks that satisfy `predicate`.
    pub fn nodes_where(&self, predicate: impl Fn(&Node) -> bool) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        self.visit_nodes(|id, node| {
            if predicate(node) {
                nodes.push(id);
            }
        });
        nodes
    }

    /// Returns the nodes of all reachable blocks that have subgraphs, outer before inner.
    pub fn nodes_with_blocks(&self) -> Vec<NodeId> {
        if self.blocks.len() == 1 {
            return Vec::new();
        }
        self.nodes_where(|node| node.blocks().next().is_some())
    }

    /// Visits the nodes of all reachable blocks, and returns the blocks, outer before inner.
    fn visit_nodes(&self, mut visit: impl FnMut(NodeId, &Node)) -> Vec<BlockId> {
        let mut blocks = vec![Self::MAIN];
        blocks.extend(self.functions.iter().map(|f| f.body));
        let mut at = 0;
        while let Some(block) = blocks.get(at).copied() {
            let mut next = self.block(block).first;
            while let Some(id) = next {
                let node = self.node(id);
                visit(id, node);
                if self.blocks.len() > 1 {
                    blocks.extend(node.blocks());
                }
                next = node.next;
            }
            at += 1;
        }
        blocks
    }

    /// Returns the number of values in the arena, including removed ones.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Returns the number of nodes in the arena, including removed ones.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns all value ids of the arena.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.values.len()).map(ValueId::from_index)
    }

    /// Returns the elements of an integer vector or scalar as dimensions: those of a constant, or those
    /// recorded when it was computed from shapes.
    pub fn content(&self, id: ValueId) -> Option<Vec<Dim>> {
        let value = self.value(id);
        if let Some(content) = &value.content {
            return Some(content.to_vec());
        }
        match &value.producer {
            Producer::Constant(tensor) if tensor.shape().len() < 2 => {
                Some(tensor.to_i64s()?.into_iter().map(Dim::Known).collect())
            }
            _ => None,
        }
    }

    /// Returns the constants and parameters that are used, in the order of creation.
    pub fn live_tensors(&self) -> impl Iterator<Item = (ValueId, &Tensor)> + '_ {
        let values = self.values.iter().zip(self.value_ids());
        values.filter_map(|(value, id)| match &value.producer {
            Producer::Constant(tensor) | Producer::Parameter(tensor) if value.is_used() => {
                Some((id, tensor))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
