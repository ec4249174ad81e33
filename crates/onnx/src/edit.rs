//! The only way to change a graph: replaces nodes and values, and updates provenance, names and the
//! work list.

use provenance::{CallId, Merged, OriginId, Origins, ScopeId, Stage};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tensor::{Dim, Type};

use crate::small_set::SmallSet;
use crate::{
    Attrs, BlockId, Builder, Error, Graph, Node, NodeId, Op, Result, Source, Use, ValueId,
};

/// The equation that a node was lowered from, and its module.
type EquationInModule = (Option<CallId>, ScopeId);

/// The origin of a removed node, and the part of it that its heirs compute.
type Gone = (OriginId, Work);

/// The operation of a removed node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// It computed something.
    Computes,
    /// It moved elements. Nodes that compute something do not do this in addition.
    Moves,
    /// It had no effect.
    None,
}

/// Distinct origins, in the order of inheritance. A node with several consumers passes its origins on along
/// several paths, so a list with duplicates would double at every step of a chain.
type Inherited = SmallSet<Gone>;

/// A short list.
type Few<T> = SmallVec<[T; 4]>;

/// An editor of a graph. A node is removed only if others inherit its origin, or if its results are not needed.
#[derive(Debug)]
pub struct Editor<'a> {
    graph: &'a mut Graph,
    origins: &'a mut Origins,
    stage: Stage,
    /// The origins that a node inherits from removed nodes. They are merged once at the end, so
    /// that a node that absorbs thousands does not copy its list thousands of times.
    inherited: FxHashMap<NodeId, Inherited>,
    /// The equations of removed consumers, for nodes with several consumers. The replacements of these consumers
    /// represent them. The replacement of the last consumer does not.
    settled: FxHashMap<NodeId, SmallSet<EquationInModule>>,
    /// The nodes whose neighbourhood changed.
    touched: Vec<NodeId>,
}

/// Merges inherited origins.
impl Drop for Editor<'_> {
    fn drop(&mut self) {
        let mut inherited: Vec<_> = std::mem::take(&mut self.inherited).into_iter().collect();
        inherited.sort_unstable_by_key(|(node, _)| *node);
        for (node, others) in inherited {
            if let Some(origin) = self.graph.get(node).map(|n| n.origin) {
                let merged = |work| if work == Work::None { Merged::No } else { Merged::Yes };
                let others: Vec<_> =
                    others.as_slice().iter().map(|(id, work)| (*id, merged(*work))).collect();
                let origin = self.origins.absorb(origin, &others);
                self.graph.node_mut(node).origin = origin;
            }
        }
    }
}

impl<'a> Editor<'a> {
    /// Creates an editor whose nodes are emitted by this stage.
    pub fn new(graph: &'a mut Graph, origins: &'a mut Origins, stage: Stage) -> Self {
        Self {
            graph,
            origins,
            stage,
            inherited: FxHashMap::default(),
            settled: FxHashMap::default(),
            touched: Vec::new(),
        }
    }

    /// Returns the current graph.
    pub fn graph(&self) -> &Graph {
        self.graph
    }

    /// Returns the graph, to add to it and to name values.
    pub fn graph_mut(&mut self) -> &mut Graph {
        self.graph
    }

    /// Takes the list of nodes whose neighbourhood changed.
    pub fn take_touched(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.touched)
    }

    /// Returns a builder whose nodes are inserted before `root` and share its origin.
    pub fn builder(&mut self, name: &'static str, root: NodeId) -> Builder<'_> {
        let node = self.graph.node(root);
        let (origin, block) = (node.origin, node.block());
        self.builder_at(name, origin, block, Some(root))
    }

    /// Returns a builder whose nodes are inserted before `before`, or at the end of `block`, and share `origin`.
    pub fn builder_at(
        &mut self,
        name: &'static str,
        origin: OriginId,
        block: BlockId,
        before: Option<NodeId>,
    ) -> Builder<'_> {
        Builder {
            graph: self.graph,
            origins: self.origins,
            name,
            stage: self.stage,
            site: None,
            source: Source::Replacing(origin),
            block,
            before,
        }
    }

    /// Returns the number of nodes so far, for [`Editor::added_since`].
    pub fn mark(&self) -> usize {
        self.graph.node_count()
    }

    /// Returns the nodes that were added since [`Editor::mark`] returned `mark`.
    pub fn added_since(&self, mark: usize) -> Vec<NodeId> {
        let nodes = (mark..self.graph.node_count()).map(NodeId::from_index);
        nodes.filter(|id| self.graph.get(*id).is_some()).collect()
    }

    /// Adds a node with the origin of `like` before `before`.
    pub fn add_like(
        &mut self,
        like: NodeId,
        before: NodeId,
        node: (Op, Vec<Option<ValueId>>, Attrs),
        types: Vec<Type>,
    ) -> NodeId {
        let (block, origin) = (self.graph.node(before).block(), self.graph.node(like).origin);
        self.graph.add_node(block, Some(before), node, types, origin)
    }

    /// Adds a node that replaces `old`, in front of it. It takes over the origin, the name and the inherited
    /// origins.
    pub fn remake(
        &mut self,
        old: NodeId,
        node: (Op, Vec<Option<ValueId>>, Attrs),
        types: Vec<Type>,
    ) -> NodeId {
        let new = self.add_like(old, old, node, types);
        self.graph.node_mut(new).name = self.graph.node(old).name.clone();
        let inherited = self.inherited.remove(&old).unwrap_or_default();
        self.inherit(&[new], inherited.as_slice());
        new
    }

    /// Passes the origins that a node inherited on to a copy of it.
    pub fn inherit_as(&mut self, node: NodeId, copy: NodeId) {
        let inherited = self.inherited.get(&node).cloned().unwrap_or_default();
        self.inherit(&[copy], inherited.as_slice());
    }

    /// Changes one operand of a node.
    pub fn set_input(&mut self, node: NodeId, index: usize, value: Option<ValueId>) {
        self.graph.set_input(node, index, value);
        self.touched.push(node);
    }

    /// Removes the operands of a node from `index` on.
    pub fn drop_inputs(&mut self, node: NodeId, index: usize) {
        for last in (index..self.graph.node(node).inputs.len()).rev() {
            self.graph.set_input(node, last, None);
            self.graph.node_mut(node).inputs.pop();
        }
        self.touched.push(node);
    }

    /// Returns the attributes of a node, to change them. A removed subgraph has to become one of another node.
    pub fn attrs_mut(&mut self, node: NodeId) -> &mut Attrs {
        &mut self.graph.node_mut(node).attrs
    }

    /// Replaces `old` by `new` in all uses. Origins stay unchanged.
    pub fn replace_uses(&mut self, old: ValueId, new: ValueId) {
        self.graph.replace_uses(old, new);
    }

    /// Replaces `value` by `new` in all uses except by the producer of `new`.
    pub fn put_between(&mut self, value: ValueId, new: ValueId) {
        self.graph.replace_uses(value, new);
        if let Some(node) = self.graph.producer(new) {
            for (index, input) in self.graph.node(node).inputs.clone().into_iter().enumerate() {
                if input == Some(new) {
                    self.graph.set_input(node, index, Some(value));
                }
            }
        }
    }

    /// Reorders or removes inputs of a block. Removed inputs must be unused.
    pub fn set_inputs(&mut self, block: BlockId, inputs: Vec<ValueId>) {
        self.graph.set_inputs(block, inputs);
    }

    /// Moves a node in front of `before`, which may be in another block. The operands must be available
    /// there.
    pub fn move_node(&mut self, id: NodeId, before: NodeId) {
        self.graph.move_node(id, before);
    }

    /// Removes an unused node, and passes its origins on to `heirs`.
    pub fn remove(&mut self, node: NodeId, heirs: &[NodeId]) {
        let mut gone = vec![own(self.graph.node(node))];
        for block in self.graph.node(node).blocks() {
            gone.extend(self.origins_within(block));
        }
        gone.extend(self.inherited.remove(&node).unwrap_or_default().as_slice());
        self.graph.remove_node(node);
        self.inherit(heirs, &gone);
    }

    /// Removes `node` if it is unused, along with everything that was computed only for it, and passes the
    /// origins on to `heirs`.
    pub fn remove_unread(&mut self, node: NodeId, heirs: &[NodeId]) {
        let gone = self.remove_unused(node, true);
        self.inherit(heirs, &gone);
    }

    /// Removes `node` if it is unused, along with everything that was computed only for it. No other node
    /// computes a part of that, so the origins are not inherited.
    pub fn remove_dead(&mut self, node: NodeId) {
        self.remove_unused(node, false);
    }

    /// Removes the nodes and the results of a block that never runs.
    pub fn clear_block(&mut self, block: BlockId) {
        self.graph.set_outputs(block, &[]);
        let nodes: Vec<NodeId> = self.graph.nodes_of(block).collect();
        nodes.into_iter().rev().for_each(|id| self.graph.remove_node(id));
    }

    /// Replaces the results of `root` by `with` and removes it, along with everything that was
    /// computed only for it. `fresh` are the nodes that were emitted for this. Without any, the removed nodes
    /// had no effect.
    pub fn replace(
        &mut self,
        name: &'static str,
        root: NodeId,
        with: &[ValueId],
        fresh: &[NodeId],
    ) -> Result<()> {
        let mut fresh: Few<NodeId> = Few::from_slice(fresh);
        let readers = self.redirect_all(name, root, with, &mut fresh)?;
        let mut gone = self.remove_unused(root, true);
        for &node in &fresh {
            self.remove_unused(node, false);
        }
        fresh.retain(|node| self.graph.get(*node).is_some());
        if fresh.is_empty() {
            gone.iter_mut().for_each(|(_, work)| *work = Work::None);
            self.bequeath(with, &readers, &gone);
        } else {
            self.touched.extend(&fresh);
            self.inherit(&fresh, &gone);
        }
        Ok(())
    }

    /// Replaces the results of `root` by `with`, which other nodes compute for it as well. Removes it, along with
    /// everything that was computed only for it.
    pub fn unite(&mut self, name: &'static str, root: NodeId, with: &[ValueId]) -> Result<()> {
        let readers = self.redirect_all(name, root, with, &mut Few::new())?;
        let gone = self.remove_unused(root, true);
        self.bequeath(with, &readers, &gone);
        Ok(())
    }

    /// Replaces the results of `root`, which selects one of several computations, by `with`, the results of the
    /// selected one. Removes `root` and the other computations. Only the origins that `root` had inherited are passed on.
    pub fn choose(&mut self, name: &'static str, root: NodeId, with: &[ValueId]) -> Result<()> {
        let readers = self.redirect_all(name, root, with, &mut Few::new())?;
        let inherited = self.inherited.remove(&root).unwrap_or_default();
        self.remove_unused(root, false);
        self.bequeath(with, &readers, inherited.as_slice());
        Ok(())
    }

    /// Replaces the results of `root` by `with` in all uses, and returns the consumers. Nodes that this requires
    /// are appended to `fresh`.
    fn redirect_all(
        &mut self,
        name: &'static str,
        root: NodeId,
        with: &[ValueId],
        fresh: &mut Few<NodeId>,
    ) -> Result<Few<NodeId>> {
        let old: Few<ValueId> = Few::from_slice(&self.graph.node(root).outputs);
        if old.len() != with.len() {
            let problem = format!("{} results by {}", old.len(), with.len());
            return Err(Error::Replaced(problem));
        }
        let readers = old.iter().flat_map(|value| self.readers(*value)).collect();
        for (&old, &new) in old.iter().zip(with) {
            if self.graph.value(old).is_used() {
                self.check_types(old, new)?;
                let made = self.redirect(name, root, old, new, fresh)?;
                fresh.extend(made);
            }
        }
        Ok(readers)
    }

    /// Passes origins on to the nodes that compute `values`. Constants and inputs are not nodes, so their
    /// `readers` inherit the origins instead. So do readers of the same equation: a convolution represents the
    /// transposition of its operand, and the node that computes the operand does not.
    fn bequeath(&mut self, values: &[ValueId], readers: &[NodeId], gone: &[Gone]) {
        let producers = values.iter().filter_map(|value| self.graph.producer(*value));
        let producers: Few<_> = producers.collect();
        let heirs = if producers.is_empty() { readers } else { &producers };
        let mut known = SmallSet::default();
        known.extend(gone.iter().map(|(id, _)| self.equation(*id)));
        let represents = |reader: &NodeId| {
            let node = self.graph.get(*reader);
            node.is_some_and(|node| known.contains(&self.equation(node.origin)))
        };
        if !readers.iter().any(represents) {
            return self.inherit(heirs, gone);
        }
        let mut equations: FxHashMap<EquationInModule, Gone> =
            gone.iter().map(|gone| (self.equation(gone.0), *gone)).collect();
        for &node in &producers {
            equations.remove(&self.equation(self.graph.node(node).origin));
        }
        let mut represented = FxHashSet::default();
        for &reader in readers {
            let Some(node) = self.graph.get(reader) else { continue };
            let equation = self.equation(node.origin);
            if let Some(&own) = equations.get(&equation) {
                represented.insert(equation);
                self.inherit(&[reader], &[own]);
            }
        }
        let others =
            gone.iter().copied().filter(|(id, _)| !represented.contains(&self.equation(*id)));
        let others: Few<_> = others.collect();
        self.inherit(heirs, &others);
    }

    /// Returns the consumers of a value, each once.
    fn readers(&self, value: ValueId) -> Few<NodeId> {
        let mut readers: Few<_> = self.graph.value(value).consumers().collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    fn check_types(&self, old: ValueId, new: ValueId) -> Result<()> {
        let (old, new) = (self.graph.ty(old), self.graph.ty(new));
        if may_be_same(old, new) {
            return Ok(());
        }
        Err(Error::Replaced(format!("a value of type {old} by one of type {new}")))
    }

    /// Replaces `old` by `new` in all uses. If a block returns `old` and cannot return `new` directly, it returns
    /// an `Identity` of it.
    fn redirect(
        &mut self,
        name: &'static str,
        root: NodeId,
        old: ValueId,
        new: ValueId,
        fresh: &[NodeId],
    ) -> Result<Option<NodeId>> {
        let block = self.graph.node(root).block();
        let uses: Few<_> = self.graph.value(old).uses().collect();
        let is_output = |place: &Use| matches!(place, Use::Output(b, _) if *b == block);
        let returned = uses.iter().any(is_output);
        let is_fresh = self.graph.producer(new).is_some_and(|node| fresh.contains(&node));
        if is_fresh {
            // The old type may be more precise than the inferred one.
            let ty = self.graph.ty(old).clone();
            let content = self.graph.value(old).content.clone();
            let value = self.graph.value_mut(new);
            value.ty = ty;
            value.content = value.content.take().or(content);
        }
        self.touched.extend(self.graph.value(old).consumers());
        let (mut target, mut made) = (new, None);
        if returned && !can_be_output(self.graph, new, block) {
            for place in &uses {
                if let Use::Operand(node, index) = *place {
                    self.graph.set_input(node, index, Some(new));
                }
            }
            target = self.builder(name, root).op("Identity", &[new], Attrs::new())?;
            made = self.graph.producer(target);
        }
        if returned || (is_fresh && self.graph.value(new).name.is_empty()) {
            self.graph.move_name(old, target);
        }
        self.graph.replace_uses(old, target);
        Ok(made)
    }

    /// Removes `node` if it is unused, along with everything that was computed only for it. Returns the origins of
    /// removed nodes if others replace them.
    fn remove_unused(&mut self, node: NodeId, is_replaced: bool) -> Vec<Gone> {
        let mut gone = Vec::new();
        let mut stack: Few<NodeId> = Few::from_slice(&[node]);
        let mut operands = Vec::new();
        while let Some(id) = stack.pop() {
            let Some(node) = self.graph.get(id) else { continue };
            if node.outputs.iter().any(|value| self.graph.value(*value).is_used()) {
                self.touched.push(id);
                continue;
            }
            let (origin, work) = own(node);
            let settled = self.settled.remove(&id).unwrap_or_default();
            let inherited = self.inherited.remove(&id).unwrap_or_default();
            if is_replaced {
                // The replacement of a loop represents the nodes in its body.
                let within = node.blocks().flat_map(|block| self.origins_within(block));
                let inherited = inherited.as_slice().iter().copied();
                let mine = std::iter::once((origin, work)).chain(within).chain(inherited);
                mine.filter(|(id, _)| !settled.contains(&self.equation(*id)))
                    .for_each(|one| gone.push(one));
            }
            collect_operands(self.graph, id, &mut operands);
            self.graph.remove_node(id);
            for value in operands.drain(..) {
                if let Some(producer) = self.graph.producer(value) {
                    stack.push(producer);
                    let here = is_replaced && self.graph.value(value).is_used();
                    self.settle(producer, here.then_some(origin), &settled);
                }
                let reader = self.graph.value(value).only_consumer();
                self.touched.extend(reader.map(|(node, _)| node));
            }
        }
        gone
    }

    /// Returns the origins of the nodes of a block and of all subgraphs in it.
    fn origins_within(&self, block: BlockId) -> Vec<Gone> {
        let (mut origins, mut blocks) = (Vec::new(), vec![block]);
        while let Some(block) = blocks.pop() {
            for id in self.graph.nodes_of(block) {
                let node = self.graph.node(id);
                origins.push(own(node));
                let inherited = self.inherited.get(&id).map(SmallSet::as_slice);
                origins.extend(inherited.unwrap_or_default());
                blocks.extend(node.blocks());
            }
        }
        origins
    }

    /// Records that a consumer of `node` with this `origin` was removed, if others stay.
    fn settle(
        &mut self,
        node: NodeId,
        origin: Option<OriginId>,
        before: &SmallSet<EquationInModule>,
    ) {
        if origin.is_some() || !before.as_slice().is_empty() {
            let removed = origin.map(|origin| self.equation(origin));
            let removed = removed.iter().chain(before.as_slice()).copied();
            self.settled.entry(node).or_default().extend(removed);
        }
    }

    fn equation(&self, origin: OriginId) -> EquationInModule {
        equation_of(self.origins, origin)
    }

    /// Passes the origins of removed nodes on to nodes that stay, which represent their equations from now on.
    fn inherit(&mut self, heirs: &[NodeId], gone: &[Gone]) {
        if gone.is_empty() {
            return;
        }
        let graph = &*self.graph;
        let work = |heir: &NodeId| graph.get(*heir).map_or(Work::None, |node| own(node).1);
        let one_computes = heirs.iter().any(|heir| work(heir) == Work::Computes);
        for heir in heirs {
            let own = work(heir);
            let shares = gone.iter().copied().map(|(id, work)| match (work, own) {
                (Work::Moves, Work::Computes) => (id, Work::None),
                (Work::Computes, Work::Moves) if one_computes => (id, Work::None),
                _ => (id, work),
            });
            self.inherited.entry(*heir).or_default().extend(shares);
            if let Some(settled) = self.settled.get_mut(heir) {
                let origins = &self.origins;
                let is_here = |equation: &EquationInModule| {
                    gone.iter().any(|(id, _)| equation_of(origins, *id) == *equation)
                };
                settled.retain(|equation| !is_here(equation));
            }
        }
    }
}

/// Returns the origin of a node, and its work.
fn own(node: &Node) -> Gone {
    (node.origin, if node.is_movement() { Work::Moves } else { Work::Computes })
}

fn equation_of(origins: &Origins, origin: OriginId) -> EquationInModule {
    let origin = origins.get(origin);
    (origin.call, origin.scope)
}

/// Returns `true` if two types are the same for some values of the unknown sizes.
pub(crate) fn may_be_same(a: &Type, b: &Type) -> bool {
    let same = |(a, b): (&Dim, &Dim)| a == b || a.as_known().is_none() || b.as_known().is_none();
    a.dtype == b.dtype && a.rank() == b.rank() && a.shape.iter().zip(&b.shape).all(same)
}

/// Appends the values that a node and its subgraphs read to `operands`.
pub fn collect_operands(graph: &Graph, id: NodeId, operands: &mut Vec<ValueId>) {
    let node = graph.node(id);
    operands.extend(node.inputs.iter().flatten());
    for block in node.blocks() {
        for inner in graph.nodes_of(block) {
            collect_operands(graph, inner, operands);
        }
        operands.extend(graph.block(block).outputs());
    }
}

/// Returns `true` if `block` can return `value` directly. The results of a block are distinct values that its own
/// nodes compute, because runtimes accept neither inputs nor constants nor outer values there.
pub fn can_be_output(graph: &Graph, value: ValueId, block: BlockId) -> bool {
    let here = graph.producer(value).is_some_and(|node| graph.node(node).block() == block);
    let is_output = |place| matches!(place, Use::Output(b, _) if b == block);
    here && !graph.value(value).uses().any(is_output)
}

#[cfg(test)]
mod tests;
