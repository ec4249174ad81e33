//! Instances of an operator that share nodes.

use std::collections::VecDeque;

use onnx::{Graph, NodeId, Use};
use rustc_hash::FxHashSet;

use super::all;
use super::matcher::{self, Finding};
use crate::Match;
use crate::runner::Rule;

/// Returns a reason if a node of `finding` must be preserved because other nodes read it.
///
/// Instances of the same operator may share nodes, as the norms of a parallel block share their
/// mean. Each instance is replaced, and then the shared nodes are removed.
pub(super) fn used_elsewhere(m: &Match<'_>, finding: &Finding, op: &str) -> Option<String> {
    let own = vec![(m.id(), finding.nodes.clone())];
    let (id, word) = read_outside(m.graph(), &own)?;
    read_outside(m.graph(), &with_alike(m, op, own))?;
    let what = match word {
        "" => format!("a result of {}", m.graph().node(id).op.name),
        word => format!("the {}", word.replace('_', " ")),
    };
    Some(format!("{what} on the way is used elsewhere"))
}

/// An instance of an operator: its root, and its nodes, each with the word that it belongs to.
type Instance = (NodeId, Vec<(NodeId, &'static str)>);

/// Returns the nodes of the instances other than their roots.
fn inner(instances: &[Instance]) -> impl Iterator<Item = (NodeId, &'static str)> {
    instances
        .iter()
        .flat_map(|(root, nodes)| nodes.iter().copied().filter(move |(id, _)| id != root))
}

/// Returns a node of an instance, other than its root, that a node outside all instances reads.
fn read_outside(graph: &Graph, instances: &[Instance]) -> Option<(NodeId, &'static str)> {
    let nodes = instances.iter().flat_map(|(_, nodes)| nodes);
    let replaced: FxHashSet<NodeId> = nodes.map(|(id, _)| *id).collect();
    inner(instances).find(|(id, _)| {
        let outputs = graph.node(*id).outputs.iter();
        let mut uses = outputs.flat_map(|value| graph.value(*value).uses());
        uses.any(|place| match place {
            Use::Operand(node, _) => !replaced.contains(&node),
            Use::Output(..) => true,
        })
    })
}

/// The maximum number of nodes to search for other instances of an operator.
const REACH: usize = 32;

/// Adds the instances of `op` that read nodes of the first one.
fn with_alike(m: &Match<'_>, op: &str, mut instances: Vec<Instance>) -> Vec<Instance> {
    let graph = m.graph();
    let mut queue: VecDeque<NodeId> =
        inner(&instances).flat_map(|(id, _)| graph.consumers(id)).collect();
    let mut seen: FxHashSet<NodeId> =
        instances.iter().flat_map(|(_, nodes)| nodes.iter().map(|(id, _)| *id)).collect();
    let limit = seen.len() + REACH;
    while let Some(id) = queue.pop_front() {
        let node = graph.node(id);
        if node.block() != m.root().block() || !seen.insert(id) || seen.len() > limit {
            continue;
        }
        let glance = matcher::seen(graph, node);
        let alike = all().unwrap_or_default().iter();
        let mut alike = alike.filter(|other| other.op == op && other.root == node.op.name);
        let found = alike.find_map(|other| {
            let may_be = other.may_apply(graph, node, &glance);
            may_be.then(|| matcher::find(graph, id, &other.spelling)).flatten()
        });
        match found {
            Some(found) => instances.push((id, found.nodes)),
            None => queue.extend(graph.consumers(id)),
        }
    }
    instances
}
