//! The arena: all values, nodes and blocks of one model.
//!
//! A block is the body of the main graph, of a control-flow branch or of a function. Blocks refer
//! to values of enclosing blocks directly, so a weight used in a loop body exists once. Nodes of a
//! block form a linked list: inserting before a node is cheap, and every node's position is
//! explicit. Constants are values without a node.

use std::borrow::Cow;

use provenance::OriginId;
use rustc_hash::FxHashMap;
use tensor::{DType, Dim, Tensor, Type};

use crate::facts::Memo;
use crate::uses::{Use, Uses};
use crate::{Assumptions, Attr, Attrs};

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
    block: BlockId,
    previous: Option<NodeId>,
    next: Option<NodeId>,
}

impl Node {
    /// Returns `true` if this is ONNX's own operator `name`.
    pub fn is(&self, name: &str) -> bool {
        self.op.domain.is_empty() && self.op.name == name
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

    /// Returns the string attribute `name`.
    pub fn string(&self, name: &str) -> Option<&str> {
        match self.attr(name) {
            Some(Attr::String(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the integer-list attribute `name`.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attr(name) {
            Some(Attr::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns the block that contains the node.
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// Returns the blocks of the subgraph attributes.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> {
        self.attrs
            .iter()
            .flat_map(|(_, attr)| match attr {
                Attr::Graph(block) => std::slice::from_ref(block),
                Attr::Graphs(blocks) => blocks,
                _ => &[],
            })
            .copied()
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
    uses: Uses,
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

/// The largest size, in bytes, of a constant that is interned when it is created.
const SMALL: usize = 64;

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

    /// Reserves space for the nodes that a program of that many equations becomes, and their
    /// replacements.
    pub fn reserve(&mut self, equations: usize) {
        self.nodes.reserve(3 * equations);
        self.values.reserve(4 * equations);
    }

    /// Starts to record replacements of values.
    pub fn remember_replacements(&mut self) {
        self.replacements.get_or_insert_default();
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

    /// Returns the value behind an id, to change its type or name.
    pub(crate) fn value_mut(&mut self, id: ValueId) -> &mut Value {
        self.facts.invalidate();
        &mut self.values[id.index()]
    }

    /// Changes the type of a value.
    pub fn set_type(&mut self, id: ValueId, ty: Type) {
        self.value_mut(id).ty = ty;
    }

    /// Names a node.
    pub fn set_node_name(&mut self, id: NodeId, name: String) {
        self.node_mut(id).name = name;
    }

    /// Sets the elements of an integer vector as dimensions, or forgets them.
    pub fn set_content(&mut self, id: ValueId, content: Option<Box<[Dim]>>) {
        self.value_mut(id).content = content;
    }

    /// Replaces a constant operand of a node by another constant.
    pub fn set_constant(&mut self, node: NodeId, index: usize, constant: ValueId) {
        let is_constant = |id: ValueId| self.tensor(id).is_some();
        if self.node(node).input(index).is_some_and(is_constant) && is_constant(constant) {
            self.set_input(node, index, Some(constant));
        }
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

    /// Returns the node, to change its attributes, name or origin. [`Graph::set_input`] changes operands.
    ///
    /// # Panics
    /// Like [`Graph::node`].
    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.facts.invalidate();
        self.stored_node(id)
    }

    fn stored_node(&mut self, id: NodeId) -> &mut Node {
        match self.nodes.get_mut(id.index()).and_then(Option::as_mut) {
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
        self.visit_nodes(|_| {})
    }

    /// Returns the nodes of all reachable blocks.
    pub fn all_nodes(&self) -> Vec<NodeId> {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        self.visit_nodes(|id| nodes.push(id));
        nodes
    }

    /// Returns the nodes of all reachable blocks that have subgraphs, outer before inner.
    pub fn nodes_with_blocks(&self) -> Vec<NodeId> {
        if self.blocks.len() == 1 {
            return Vec::new();
        }
        let mut nodes = self.all_nodes();
        nodes.retain(|id| self.node(*id).blocks().next().is_some());
        nodes
    }

    /// Visits the nodes of all reachable blocks, and returns the blocks, outer before inner.
    fn visit_nodes(&self, mut visit: impl FnMut(NodeId)) -> Vec<BlockId> {
        let mut blocks = vec![Self::MAIN];
        blocks.extend(self.functions.iter().map(|f| f.body));
        let mut at = 0;
        while let Some(block) = blocks.get(at).copied() {
            let mut next = self.block(block).first;
            while let Some(id) = next {
                let node = self.node(id);
                visit(id);
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

    fn add_value(&mut self, ty: Type, producer: Producer) -> ValueId {
        let (name, content, uses) = (String::new(), None, Uses::default());
        self.values.push(Value { ty, name, content, producer, uses });
        ValueId::from_index(self.values.len() - 1)
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, tensor: Tensor) -> ValueId {
        self.add_value(tensor.ty(), Producer::Constant(tensor))
    }

    /// Adds a parameter. Without a name it is a constant.
    pub fn add_parameter(&mut self, name: String, tensor: Tensor) -> ValueId {
        let value = self.add_constant(tensor);
        self.set_name(value, name);
        value
    }

    /// Names a value. A constant with a name is a parameter.
    pub fn set_name(&mut self, id: ValueId, name: String) {
        let value = self.value_mut(id);
        if let (Producer::Constant(tensor), false) = (&value.producer, name.is_empty()) {
            value.producer = Producer::Parameter(tensor.clone());
        }
        value.name = name;
    }

    /// Takes the name of a value, for its replacement. A parameter is a constant from then on.
    pub fn take_name(&mut self, id: ValueId) -> String {
        let value = self.value_mut(id);
        if let Producer::Parameter(tensor) = &value.producer {
            value.producer = Producer::Constant(tensor.clone());
        }
        std::mem::take(&mut value.name)
    }

    /// Gives the name of `from`, if it has one, to `to`.
    pub fn move_name(&mut self, from: ValueId, to: ValueId) {
        let name = self.take_name(from);
        if !name.is_empty() {
            self.set_name(to, name);
        }
    }

    /// Adds a constant. Small constants that are equal share one value.
    pub fn intern_constant(&mut self, tensor: Tensor) -> ValueId {
        if tensor.byte_len() > SMALL {
            return self.add_constant(tensor);
        }
        let Some(bytes) = tensor.bytes().map(Cow::into_owned) else {
            return self.add_constant(tensor);
        };
        let key = (tensor.dtype(), tensor.shape().to_vec(), bytes);
        // One that became a parameter is no longer shared.
        let known = self.small_constants.get(&key).copied();
        if let Some(known) = known.filter(|known| self.constant(*known).is_some()) {
            return known;
        }
        let value = self.add_constant(tensor);
        self.small_constants.insert(key, value);
        value
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

    /// Adds a block without inputs and nodes.
    pub fn add_block(&mut self) -> BlockId {
        self.blocks.push(Block::default());
        BlockId::from_index(self.blocks.len() - 1)
    }

    /// Adds an input at the end of a block's inputs.
    pub fn add_input(&mut self, block: BlockId, ty: Type) -> ValueId {
        let value = self.add_value(ty, Producer::Input(block));
        self.blocks[block.index()].inputs.push(value);
        value
    }

    /// Sets the inputs of a block to some of its current inputs, in any order. The others must not
    /// have uses.
    pub(crate) fn set_inputs(&mut self, block: BlockId, inputs: Vec<ValueId>) {
        let old = std::mem::replace(&mut self.blocks[block.index()].inputs, inputs);
        for value in old {
            if !self.blocks[block.index()].inputs.contains(&value) {
                self.values[value.index()].producer = Producer::Removed;
            }
        }
    }

    /// Sets the outputs of a block.
    pub fn set_outputs(&mut self, block: BlockId, outputs: &[ValueId]) {
        for (i, value) in self.blocks[block.index()].outputs.clone().into_iter().enumerate() {
            self.drop_use(value, Use::Output(block, i));
        }
        for (i, value) in outputs.iter().enumerate() {
            self.values[value.index()].uses.insert(Use::Output(block, i));
        }
        self.blocks[block.index()].outputs = outputs.to_vec();
    }

    /// Adds a node before `before`, or else at the end of `block`. Its outputs have the
    /// given types.
    pub fn add_node(
        &mut self,
        block: BlockId,
        before: Option<NodeId>,
        (op, inputs, attrs): (Op, Vec<Option<ValueId>>, Attrs),
        outputs: Vec<Type>,
        origin: OriginId,
    ) -> NodeId {
        let id = NodeId::from_index(self.nodes.len());
        for (i, input) in inputs.iter().enumerate() {
            if let Some(value) = input {
                self.values[value.index()].uses.insert(Use::Operand(id, i));
            }
        }
        let outputs = outputs.into_iter().enumerate();
        let outputs = outputs.map(|(i, ty)| self.add_value(ty, Producer::Node(id, i))).collect();
        let previous = match before {
            Some(next) => self.node(next).previous,
            None => self.block(block).last,
        };
        let name = String::new();
        let node = Node { op, inputs, outputs, attrs, origin, name, block, previous, next: before };
        self.nodes.push(Some(node));
        self.link(block, previous, Some(id));
        self.link(block, Some(id), before);
        id
    }

    /// Moves a node before `before`, which may be in another block. The operands of the node must
    /// be in scope there.
    pub(crate) fn move_node(&mut self, id: NodeId, before: NodeId) {
        let (from, left, right) = {
            let node = self.node(id);
            (node.block, node.previous, node.next)
        };
        self.link(from, left, right);
        let (to, left) = {
            let next = self.node(before);
            (next.block, next.previous)
        };
        self.stored_node(id).block = to;
        self.link(to, left, Some(id));
        self.link(to, Some(id), Some(before));
    }

    /// Makes `left` and `right` neighbours. `None` is an end of the block.
    fn link(&mut self, block: BlockId, left: Option<NodeId>, right: Option<NodeId>) {
        match left {
            Some(left) => self.stored_node(left).next = right,
            None => self.blocks[block.index()].first = right,
        }
        match right {
            Some(right) => self.stored_node(right).previous = left,
            None => self.blocks[block.index()].last = left,
        }
    }

    fn drop_use(&mut self, value: ValueId, gone: Use) {
        self.values[value.index()].uses.remove(gone);
    }

    /// Changes one operand of a node.
    pub(crate) fn set_input(&mut self, node: NodeId, index: usize, value: Option<ValueId>) {
        let old = std::mem::replace(&mut self.node_mut(node).inputs[index], value);
        if let Some(old) = old {
            self.drop_use(old, Use::Operand(node, index));
        }
        if let Some(new) = value {
            self.values[new.index()].uses.insert(Use::Operand(node, index));
        }
    }

    /// Replaces all uses of `old` with `new`.
    pub(crate) fn replace_uses(&mut self, old: ValueId, new: ValueId) {
        if old == new {
            return;
        }
        if let Some(known) = &mut self.replacements {
            known.remove(&new);
            known.insert(old, new);
        }
        let uses = std::mem::take(&mut self.values[old.index()].uses);
        for &place in uses.as_slice() {
            match place {
                Use::Operand(node, index) => self.node_mut(node).inputs[index] = Some(new),
                Use::Output(block, index) => self.blocks[block.index()].outputs[index] = new,
            }
            self.values[new.index()].uses.insert(place);
        }
    }

    /// Removes a node and its blocks. Its outputs must no longer have uses.
    pub(crate) fn remove_node(&mut self, id: NodeId) {
        let blocks: Vec<_> = self.node(id).blocks().collect();
        for block in blocks {
            self.set_outputs(block, &[]);
            let inner: Vec<_> = self.nodes_of(block).collect();
            for node in inner.into_iter().rev() {
                self.remove_node(node);
            }
        }
        let (block, previous, next) = {
            let node = self.node(id);
            (node.block, node.previous, node.next)
        };
        self.link(block, previous, next);
        if let Some(node) = self.nodes[id.index()].take() {
            for (i, input) in node.inputs.iter().enumerate() {
                if let Some(value) = input {
                    self.drop_use(*value, Use::Operand(id, i));
                }
            }
            for value in node.outputs {
                self.values[value.index()].producer = Producer::Removed;
            }
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
