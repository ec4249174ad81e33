//! Rewrites to a fixpoint: every node is looked at once, and again when its neighbourhood changed.

use std::collections::VecDeque;

use onnx::{Graph, Node, NodeId, ValueId};
use rustc_hash::FxHashMap;

use crate::{Changed, Editor, Error, Match, Problem, Skip, Verify};

/// Something that replaces a node: a rewrite, or the recognition of an operator.
pub(crate) trait Rule {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// The operators it looks at.
    fn roots(&self) -> &[&'static str];
    /// Whether it is worth trying at `node`: a quick look, for rules that there are many of.
    fn may_apply(&self, _graph: &Graph, _node: &Node) -> bool {
        true
    }
    /// The values that replace the results of the root, or why it stays.
    fn try_at(&self, m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip>;
}

/// A list of nodes without repetition.
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

/// Applies `rewrites`, called `name` together, until none of them applies anywhere.
pub(crate) fn run<'r, R: Rule + 'r>(
    edit: &mut Editor<'_>,
    name: &'static str,
    rewrites: impl IntoIterator<Item = &'r R>,
) -> Result<Changed, Error> {
    let mut by_root: FxHashMap<&str, Vec<&R>> = FxHashMap::default();
    for rewrite in rewrites {
        for root in rewrite.roots() {
            by_root.entry(root).or_default().push(rewrite);
        }
    }
    let mut work = WorkList::default();
    let nodes = edit.graph().all_nodes();
    // Every rewrite makes the graph simpler, so a node is replaced a few times at most.
    let limit = 64 * nodes.len() + 4096;
    nodes.into_iter().for_each(|node| work.push(node));
    edit.take_touched();
    let mut applied = 0;
    while let Some(id) = work.pop() {
        let Some(node) = edit.graph().get(id).filter(|n| n.op.domain.is_empty()) else { continue };
        let Some(candidates) = by_root.get(node.op.name) else { continue };
        for rewrite in candidates {
            if !edit.graph().get(id).is_some_and(|node| rewrite.may_apply(edit.graph(), node)) {
                continue;
            }
            if edit.is_out_of_fuel() {
                return Ok(Changed::from(applied > 0));
            }
            if edit.attempt(*rewrite, id)? {
                applied += 1;
                if applied > limit {
                    let (rewrite, origin) = (rewrite.name(), None);
                    return Err(Error { rewrite, origin, problem: Problem::Endless });
                }
                edit.take_touched().into_iter().for_each(|node| work.push(node));
                break;
            }
        }
    }
    if applied > 0 {
        edit.verify(name, Verify::EachPass)?;
    }
    Ok(Changed::from(applied > 0))
}
