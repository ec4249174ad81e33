//! Applies rewrites to a fixed point: every node is visited once, and again when its neighbourhood
//! changes.

use std::collections::VecDeque;

use onnx::{Graph, Node, NodeId, ValueId, operators};

use crate::{Changed, Editor, Error, Match, Problem, Skip, Verify};

/// A rule that replaces a node: a rewrite, or the recognition of an operator.
pub(crate) trait Rule {
    /// A summary of a node that is computed once for all rules.
    type Glance;

    /// Returns the name of the rule.
    fn name(&self) -> &'static str;
    /// Returns the operators that the rule applies to.
    fn roots(&self) -> Vec<&'static str>;
    /// Summarises `node`.
    fn glance(graph: &Graph, node: &Node) -> Self::Glance;
    /// Returns `true` if the rule may apply at `node`. A quick check for large sets of rules.
    fn may_apply(&self, _graph: &Graph, _node: &Node, _glance: &Self::Glance) -> bool {
        true
    }
    /// Returns the values that replace the results of the root, or the reason to skip it.
    fn try_at(&self, m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip>;
}

/// A queue of nodes without duplicates.
#[derive(Default)]
struct WorkList {
    queue: VecDeque<NodeId>,
    queued: Vec<bool>,
}

impl WorkList {
    fn push(&mut self, node: NodeId) {
        let index = node.index();
        if index >= self.queued.len() {
            self.queued.resize((index + 1).max(2 * self.queued.len()), false);
        }
        if !std::mem::replace(&mut self.queued[index], true) {
            self.queue.push_back(node);
        }
    }

    fn pop(&mut self) -> Option<NodeId> {
        let node = self.queue.pop_front()?;
        self.queued[node.index()] = false;
        Some(node)
    }
}

/// Rules that are tried together.
#[derive(Debug)]
pub(crate) struct Rules<'r, R> {
    name: &'static str,
    /// The rules that apply to each operator, by its number.
    by_root: Vec<Vec<&'r R>>,
}

impl<'r, R: Rule> Rules<'r, R> {
    /// Groups the rules under a common name.
    pub(crate) fn new(name: &'static str, rules: impl IntoIterator<Item = &'r R>) -> Self {
        let mut by_root: Vec<Vec<&R>> = Vec::new();
        for rule in rules {
            for root in rule.roots() {
                let number = operators::find(root).number;
                debug_assert!(number > 0, "`{root}` is not an operator");
                by_root.resize_with(by_root.len().max(number + 1), Vec::new);
                by_root[number].push(rule);
            }
        }
        Self { name, by_root }
    }

    /// Returns the rules that apply to `node`.
    fn of(&self, node: &Node) -> &[&'r R] {
        self.by_root.get(node.operator().number).map_or(&[], Vec::as_slice)
    }

    /// Applies the rules to a fixed point.
    pub(crate) fn run(&self, edit: &mut Editor<'_>) -> Result<Changed, Error> {
        // Every rule simplifies the graph, so a node is replaced only a few times.
        let limit = 64 * edit.mark() + 4096;
        let mut work = WorkList::default();
        let roots = edit.graph().nodes_where(|node| !self.of(node).is_empty());
        roots.into_iter().for_each(|node| work.push(node));
        edit.take_touched();
        let mut applied = 0;
        while let Some(id) = work.pop() {
            let Some(node) = edit.graph().get(id) else { continue };
            let rules = self.of(node);
            if rules.is_empty() {
                continue;
            }
            let Some(rewrite) = edit.attempt(rules, id)? else { continue };
            applied += 1;
            if applied > limit {
                return Err(Error { rewrite, origin: None, problem: Problem::Endless });
            }
            edit.take_touched().into_iter().for_each(|node| work.push(node));
        }
        if applied > 0 {
            edit.verify(self.name, Verify::EachPass)?;
        }
        Ok(Changed::from(applied > 0))
    }
}
