//! Changes of the arena: adding, moving, naming and removing values, nodes and blocks.
//!
//! Those that could lose an origin are private to the crate; [`Editor`](crate::Editor) is built on them.

use std::borrow::Cow;

use provenance::OriginId;
use tensor::{Dim, Tensor, Type};

use super::{Block, BlockId, Graph, Node, NodeId, Op, Producer, Use, Value, ValueId};
use crate::Attrs;
use crate::small_set::SmallSet;

/// The largest size, in bytes, of a constant that is interned when it is created.
const SMALL: usize = 64;

impl Graph {
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

    fn add_value(&mut self, ty: Type, producer: Producer) -> ValueId {
        let (name, content, uses) = (String::new(), None, SmallSet::default());
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
            self.values[value.index()].uses.remove(&Use::Output(block, i));
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
        let (name, operator) = (String::new(), op.operator());
        let node = Node {
            op,
            inputs,
            outputs,
            attrs,
            origin,
            name,
            operator,
            block,
            previous,
            next: before,
        };
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

    /// Changes one operand of a node.
    pub(crate) fn set_input(&mut self, node: NodeId, index: usize, value: Option<ValueId>) {
        let old = std::mem::replace(&mut self.node_mut(node).inputs[index], value);
        if let Some(old) = old {
            self.values[old.index()].uses.remove(&Use::Operand(node, index));
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
                    self.values[value.index()].uses.remove(&Use::Operand(id, i));
                }
            }
            for value in node.outputs {
                self.values[value.index()].producer = Producer::Removed;
            }
        }
    }
}
