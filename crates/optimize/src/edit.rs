//! The editor: the only way to change a graph. It replaces nodes and values, and updates
//! provenance, names and the work list.

use onnx::{Attrs, BlockId, Builder, Graph, NodeId, Source, Use, ValueId};
use provenance::{CallId, OriginId, Origins, ScopeId, Stage};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tensor::{Dim, Type};

use crate::rewrite::{Match, Memory, can_be_output};
use crate::runner::Rule;
use crate::small_set::SmallSet;
use crate::{Error, Forms, Missed, Options, Problem, Report, Skip, Verify};

/// The source location of a node, regardless of the stage that emitted it.
type Place = (Option<CallId>, ScopeId);

/// Distinct origins, in order of arrival. A value with several consumers reaches its heirs along
/// many paths, so plain lists would double at every step of a chain.
type Inherited = SmallSet<OriginId>;

/// A list that is usually short.
type Few<T> = SmallVec<[T; 4]>;

/// An editor that lends the graph to passes and rewrites.
#[derive(Debug)]
pub struct Editor<'a> {
    graph: &'a mut Graph,
    origins: &'a mut Origins,
    /// The origins that a node inherits from removed nodes. They are merged once at the end, so
    /// that a node that absorbs thousands does not copy its list thousands of times.
    inherited: FxHashMap<NodeId, Inherited>,
    /// The locations of removed consumers of nodes with several consumers. The replacements of
    /// these consumers represent the locations. The replacement of the last consumer does not.
    settled: FxHashMap<NodeId, SmallSet<Place>>,
    /// The nodes whose neighbourhood changed.
    touched: Vec<NodeId>,
    fuel: u64,
    options: Options,
    report: Report,
    /// The operators that were nearly recognised at a node, and the reason why they were not.
    missed: FxHashMap<NodeId, (&'static str, String)>,
    memory: Memory,
}

impl<'a> Editor<'a> {
    pub(crate) fn new(graph: &'a mut Graph, origins: &'a mut Origins, options: &Options) -> Self {
        Self {
            graph,
            origins,
            inherited: FxHashMap::default(),
            settled: FxHashMap::default(),
            touched: Vec::new(),
            fuel: options.fuel.unwrap_or(u64::MAX),
            options: options.clone(),
            report: Report::default(),
            missed: FxHashMap::default(),
            memory: Memory::default(),
        }
    }

    /// Returns the current graph.
    pub fn graph(&self) -> &Graph {
        self.graph
    }

    /// Returns the forms of operators.
    pub(crate) fn forms(&self) -> &Forms {
        &self.options.forms
    }

    /// Takes one unit of fuel for `name`. Returns `false` if the fuel is used up, so that nothing
    /// may be changed.
    pub fn spend(&mut self, name: &'static str) -> bool {
        if self.fuel == 0 {
            return false;
        }
        self.fuel -= 1;
        *self.report.applied.entry(name).or_default() += 1;
        true
    }

    pub(crate) fn take_touched(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.touched)
    }

    /// Verifies the graph if the options request verification as often as `when`. Blames `name` for
    /// errors.
    pub(crate) fn verify(&self, name: &'static str, when: Verify) -> Result<(), Error> {
        if self.options.verify > when {
            return Ok(());
        }
        onnx::verify(self.graph, self.options.opset).map_err(|error| Error {
            rewrite: name,
            origin: None,
            problem: Problem::Invalid(error),
        })
    }

    /// Returns an error of `rewrite` at `root`.
    fn error(&self, rewrite: &'static str, root: NodeId, problem: Problem) -> Error {
        Error { rewrite, origin: self.graph.get(root).map(|node| node.origin), problem }
    }

    /// Merges inherited origins and returns the report.
    pub(crate) fn finish(mut self) -> Report {
        let missed = std::mem::take(&mut self.missed).into_iter();
        let mut missed: Vec<_> = missed
            .filter_map(|(node, (op, reason))| {
                let origin = self.graph.get(node)?.origin;
                Some((node, Missed { op, reason, origin }))
            })
            .collect();
        missed.sort_unstable_by_key(|(node, _)| *node);
        self.report.missed = missed.into_iter().map(|(_, missed)| missed).collect();
        let mut inherited: Vec<_> = self.inherited.into_iter().collect();
        inherited.sort_unstable_by_key(|(node, _)| *node);
        for (node, others) in inherited {
            if let Some(origin) = self.graph.get(node).map(|n| n.origin) {
                let origin = self.origins.absorb(origin, others.as_slice());
                self.graph.node_mut(node).origin = origin;
            }
        }
        self.report
    }

    /// Tries rules at one node until one applies, and returns its name.
    pub(crate) fn attempt<R: Rule>(
        &mut self,
        rules: &[&R],
        root: NodeId,
    ) -> Result<Option<&'static str>, Error> {
        let glance = R::glance(self.graph, self.graph.node(root));
        let builder = builder(self.graph, self.origins, "", root);
        let mut found = Match::new(builder, &self.options.forms, &mut self.memory, root);
        for rule in rules {
            if !rule.may_apply(found.graph(), found.root(), &glance) {
                continue;
            }
            if self.fuel == 0 {
                break;
            }
            let name = rule.name();
            match found.attempt(name, |m| rule.try_at(m)) {
                Ok(with) => {
                    let fresh = found.into_fresh();
                    self.spend(name);
                    let origin = self.graph.node(root).origin;
                    self.replace(name, root, &with, &fresh)?;
                    let verified = self.verify(name, Verify::EachRewrite);
                    verified.map_err(|error| Error { origin: Some(origin), ..error })?;
                    return Ok(Some(name));
                }
                Err(Skip::Failed(error)) => {
                    return Err(self.error(name, root, Problem::Node(error)));
                }
                Err(Skip::Because(reason)) => count_skip(&mut self.report, name, reason),
                Err(Skip::Missed(reason)) => {
                    if self.options.report_missed {
                        // The first attempt has the most informative reason.
                        self.missed.entry(root).or_insert((name, reason));
                    }
                    count_skip(&mut self.report, name, "it was missed");
                }
            }
        }
        Ok(None)
    }

    /// Reports that `op` could not become one node. Later reports override earlier ones, because
    /// they follow more clean-ups.
    pub(crate) fn miss(&mut self, node: NodeId, op: &'static str, reason: &str) {
        if self.options.report_missed {
            self.missed.insert(node, (op, reason.to_owned()));
        }
    }

    /// Returns a builder whose nodes are inserted before `root` and share its origin.
    pub(crate) fn builder(&mut self, name: &'static str, root: NodeId) -> Builder<'_> {
        builder(self.graph, self.origins, name, root)
    }

    /// Replaces the results of `root` by `with` and removes it, together with all nodes that were
    /// computed only for it. `fresh` are the nodes that were emitted for the replacement.
    pub(crate) fn replace(
        &mut self,
        name: &'static str,
        root: NodeId,
        with: &[ValueId],
        fresh: &[NodeId],
    ) -> Result<(), Error> {
        let mut fresh: Few<NodeId> = Few::from_slice(fresh);
        let readers = self.redirect_all(name, root, with, &mut fresh)?;
        let mut gone = Vec::new();
        self.remove_unused(root, Some(&mut gone));
        for &node in &fresh {
            self.remove_unused(node, None);
        }
        fresh.retain(|node| self.graph.get(*node).is_some());
        if fresh.is_empty() {
            self.bequeath(with, &readers, &gone);
        } else {
            self.touched.extend(&fresh);
            self.inherit(&fresh, &gone);
        }
        Ok(())
    }

    /// Replaces the results of `root`, which only selects between computations, by `with`. Removes
    /// `root` together with the computations that it did not select. The origins of the condition
    /// go to the selected computation. Nothing inherits the other origins.
    pub(crate) fn choose(
        &mut self,
        name: &'static str,
        root: NodeId,
        with: &[ValueId],
    ) -> Result<(), Error> {
        let readers = self.redirect_all(name, root, with, &mut Few::new())?;
        let inherited = self.inherited.remove(&root).unwrap_or_default();
        self.remove_unused(root, None);
        self.bequeath(with, &readers, inherited.as_slice());
        Ok(())
    }

    /// Makes all consumers of the results of `root` read `with`, and returns these consumers.
    /// Appends nodes that this requires to `fresh`.
    fn redirect_all(
        &mut self,
        name: &'static str,
        root: NodeId,
        with: &[ValueId],
        fresh: &mut Few<NodeId>,
    ) -> Result<Few<NodeId>, Error> {
        let old: Few<ValueId> = Few::from_slice(&self.graph.node(root).outputs);
        if old.len() != with.len() {
            let (old, new) = (old.len(), with.len());
            return Err(self.error(name, root, Problem::Count { old, new }));
        }
        let readers = old.iter().flat_map(|value| self.readers(*value)).collect();
        for (&old, &new) in old.iter().zip(with) {
            if self.graph.value(old).is_used() {
                self.check_types(old, new).map_err(|problem| self.error(name, root, problem))?;
                let made = self.redirect(name, root, old, new, fresh)?;
                fresh.extend(made);
            }
        }
        Ok(readers)
    }

    /// Passes origins on to the producers of `values`. Constants and inputs have no producers, so
    /// their `readers` inherit the origins instead.
    fn bequeath(&mut self, values: &[ValueId], readers: &[NodeId], gone: &[OriginId]) {
        let producers = values.iter().filter_map(|value| self.graph.producer(*value));
        let producers: Few<_> = producers.collect();
        self.inherit(if producers.is_empty() { readers } else { &producers }, gone);
    }

    /// Returns the distinct nodes that read a value.
    fn readers(&self, value: ValueId) -> Few<NodeId> {
        let mut readers: Few<_> = self.graph.value(value).uses().filter_map(reader).collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    fn check_types(&self, old: ValueId, new: ValueId) -> Result<(), Problem> {
        let (old, new) = (self.graph.ty(old), self.graph.ty(new));
        let same = |(a, b): (&Dim, &Dim)| match (a.as_known(), b.as_known()) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        if old.dtype == new.dtype
            && old.rank() == new.rank()
            && old.shape.iter().zip(&new.shape).all(same)
        {
            return Ok(());
        }
        Err(Problem::Type { old: Type::clone(old), new: Type::clone(new) })
    }

    /// Makes all consumers of `old` read `new`. If a block returns `old` and cannot return `new`
    /// directly, it returns an `Identity` of it.
    fn redirect(
        &mut self,
        name: &'static str,
        root: NodeId,
        old: ValueId,
        new: ValueId,
        fresh: &[NodeId],
    ) -> Result<Option<NodeId>, Error> {
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
        self.touched.extend(uses.iter().copied().filter_map(reader));
        let (mut target, mut made) = (new, None);
        if returned && !can_be_output(self.graph, new, block) {
            for place in &uses {
                if let Use::Operand(node, index) = *place {
                    self.graph.set_input(node, index, Some(new));
                }
            }
            let mut builder = builder(self.graph, self.origins, name, root);
            let identity = builder.op("Identity", &[new], Attrs::new());
            target = identity.map_err(|error| self.error(name, root, Problem::Node(error)))?;
            made = self.graph.producer(target);
        }
        if returned || (is_fresh && self.graph.value(new).name.is_empty()) {
            let old_name = std::mem::take(&mut self.graph.value_mut(old).name);
            if !old_name.is_empty() {
                self.graph.value_mut(target).name = old_name;
            }
        }
        self.graph.replace_uses(old, target);
        Ok(made)
    }

    /// Removes `node` if nothing reads its results, and then all nodes that were computed only for
    /// it. Appends the origins of removed nodes to `gone`. Without `gone`, nothing replaces them.
    pub(crate) fn remove_unused(&mut self, node: NodeId, mut gone: Option<&mut Vec<OriginId>>) {
        let mut stack: Few<NodeId> = Few::from_slice(&[node]);
        let mut operands = Vec::new();
        while let Some(id) = stack.pop() {
            let Some(node) = self.graph.get(id) else { continue };
            if node.outputs.iter().any(|value| self.graph.value(*value).is_used()) {
                self.touched.push(id);
                continue;
            }
            let origin = node.origin;
            let settled = self.settled.remove(&id).unwrap_or_default();
            let inherited = self.inherited.remove(&id).unwrap_or_default();
            if let Some(gone) = gone.as_deref_mut() {
                // The replacement of a loop represents everything that its iterations computed.
                let within = node.blocks().flat_map(|block| self.origins_within(block));
                let inherited = inherited.as_slice().iter().copied();
                let mine = std::iter::once(origin).chain(within).chain(inherited);
                gone.extend(mine.filter(|id| !settled.contains(&self.place(*id))));
            }
            collect_operands(self.graph, id, &mut operands);
            self.graph.remove_node(id);
            for value in operands.drain(..) {
                if let Some(producer) = self.graph.producer(value) {
                    stack.push(producer);
                    let here = gone.is_some() && self.graph.value(value).is_used();
                    self.settle(producer, here.then_some(origin), &settled);
                }
                let mut uses = self.graph.value(value).uses();
                if let (Some(Use::Operand(reader, _)), 0) = (uses.next(), uses.len()) {
                    self.touched.push(reader);
                }
            }
        }
    }

    /// Returns the origins of the nodes of a block and of all subgraphs in it.
    fn origins_within(&self, block: BlockId) -> Vec<OriginId> {
        let (mut origins, mut blocks) = (Vec::new(), vec![block]);
        while let Some(block) = blocks.pop() {
            for id in self.graph.nodes_of(block) {
                let node = self.graph.node(id);
                origins.push(node.origin);
                let inherited = self.inherited.get(&id).map(SmallSet::as_slice);
                origins.extend(inherited.unwrap_or_default());
                blocks.extend(node.blocks());
            }
        }
        origins
    }

    /// Records that a consumer of `node` with this `origin` was removed while others remain.
    fn settle(&mut self, node: NodeId, origin: Option<OriginId>, before: &SmallSet<Place>) {
        if origin.is_some() || !before.is_empty() {
            let place = origin.map(|origin| self.place(origin));
            let places = place.iter().chain(before.as_slice()).copied();
            self.settled.entry(node).or_default().extend(places);
        }
    }

    fn place(&self, origin: OriginId) -> Place {
        let origin = self.origins.get(origin);
        (origin.call, origin.scope)
    }

    /// Returns the graph, for passes that change constants, functions or attributes.
    pub(crate) fn graph_mut(&mut self) -> &mut Graph {
        self.graph
    }

    /// Transfers the inherited origins of `old` to `new`.
    pub(crate) fn hand_over(&mut self, old: NodeId, new: NodeId) {
        let inherited = self.inherited.remove(&old).unwrap_or_default();
        self.inherit(&[new], inherited.as_slice());
    }

    /// Passes the origins of removed nodes on to remaining nodes.
    pub(crate) fn inherit(&mut self, heirs: &[NodeId], gone: &[OriginId]) {
        for heir in heirs {
            self.inherited.entry(*heir).or_default().extend(gone.iter().copied());
        }
    }
}

/// Returns a builder whose nodes are inserted before `root` and share its origin.
fn builder<'b>(
    graph: &'b mut Graph,
    origins: &'b mut Origins,
    name: &'static str,
    root: NodeId,
) -> Builder<'b> {
    let node = graph.node(root);
    let source = Source::Replacing { primary: node.origin, others: Vec::new() };
    Builder {
        block: node.block(),
        before: Some(root),
        graph,
        origins,
        name,
        stage: Stage::Rewrite,
        site: None,
        source,
    }
}

/// Counts the reasons why rewrites skip nodes. Only tests read them.
#[cfg_attr(not(test), expect(unused_variables, reason = "only tests ask"))]
fn count_skip(report: &mut Report, rule: &'static str, reason: &'static str) {
    #[cfg(test)]
    {
        *report.skipped.entry((rule, reason)).or_default() += 1;
    }
}

/// Returns the node that uses a value as an operand.
fn reader(place: Use) -> Option<NodeId> {
    match place {
        Use::Operand(node, _) => Some(node),
        Use::Output(..) => None,
    }
}

/// Collects the values that a node and its subgraphs read.
pub(crate) fn collect_operands(graph: &Graph, id: NodeId, operands: &mut Vec<ValueId>) {
    let node = graph.node(id);
    operands.extend(node.inputs.iter().flatten());
    for block in node.blocks() {
        for inner in graph.nodes_of(block) {
            collect_operands(graph, inner, operands);
        }
        operands.extend(graph.block(block).outputs());
    }
}
