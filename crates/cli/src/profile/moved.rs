//! Attribution of nodes that onnxruntime moved out of a branch.
//!
//! If the condition of an `If` is constant, onnxruntime replaces the `If` by the nodes of its
//! branch. It names them after their operators, in their order in the branch:
//! `_if_else_branch_Add_token_3`.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Target;
use super::read::Kernel;
use crate::model::{BodyKind, Index, NodeInBranch, node_in_branch};

/// The maximum number of nodes that a kernel is attributed to. Beyond it, the `If` represents them.
const MOST: usize = 64;

/// The maximum product of the numbers of inlined branches and of nodes that they may come from.
const LARGEST: usize = 1 << 24;

/// The kernels of one inlined branch: the enclosing kernel, and the start of their names.
type Group<'k> = (Option<usize>, &'k str);

/// Sets the targets of unknown kernels whose nodes were moved out of branches.
pub(super) fn attribute_moved(index: &Index<'_>, kernels: &mut [(&Kernel, Target)]) {
    let mut groups: FxHashMap<Group<'_>, Vec<Moved<'_>>> = FxHashMap::default();
    for (at, (kernel, target)) in kernels.iter().enumerate() {
        if let (Target::Unknown, Some(node)) = (target, node_in_branch(&kernel.name)) {
            let NodeInBranch { prefix, attribute, op } = node;
            let moved = Moved { at, attribute, op, position: kernel.position };
            groups.entry((kernel.inside, prefix)).or_default().push(moved);
        }
    }
    if groups.is_empty() {
        return;
    }
    let branches = Branches::new(index, kernels);
    let nodes: usize = branches.nodes.values().map(Vec::len).sum();
    if groups.len().saturating_mul(nodes) > LARGEST {
        return;
    }
    let mut found: Vec<(usize, Vec<usize>)> = Vec::new();
    for ((inside, _), group) in &groups {
        let around = inside.map(|inside| &kernels[inside].1);
        found.extend(branches.nodes(around, group));
    }
    for (at, nodes) in found {
        if let Some((&first, others)) = nodes.split_first() {
            kernels[at].1 = Target::Node(first, Vec::new(), others.to_vec());
        }
    }
}

/// A kernel whose node was moved.
struct Moved<'k> {
    at: usize,
    /// The attribute of the branch.
    attribute: &'static str,
    op: &'k str,
    position: Option<usize>,
}

/// The branches that did not run as such.
struct Branches<'i, 'm> {
    index: &'i Index<'m>,
    /// The nodes named `If` without a kernel.
    silent: FxHashSet<usize>,
    /// The nodes of each branch: of an `If`, in an attribute.
    nodes: FxHashMap<(usize, &'m str), Vec<usize>>,
}

impl<'i, 'm> Branches<'i, 'm> {
    fn new(index: &'i Index<'m>, kernels: &[(&Kernel, Target)]) -> Self {
        let mut silent: FxHashSet<usize> =
            (0..index.nodes.len()).filter(|at| index.nodes[*at].proto.op_type == "If").collect();
        for (_, target) in kernels {
            if let Target::Node(node, ..) = target {
                silent.remove(node);
            }
        }
        let mut nodes: FxHashMap<(usize, &str), Vec<usize>> = FxHashMap::default();
        for (at, node) in index.nodes.iter().enumerate() {
            if let BodyKind::Inner(owner, attribute) = index.bodies[node.body].kind
                && silent.contains(&owner)
            {
                nodes.entry((owner, attribute)).or_default().push(at);
            }
        }
        Self { index, silent, nodes }
    }

    /// Returns the nodes that each kernel of a group may have run.
    fn nodes(&self, around: Option<&Target>, group: &[Moved<'_>]) -> Vec<(usize, Vec<usize>)> {
        let Some(attribute) = group.first().map(|moved| moved.attribute) else { return Vec::new() };
        let mut kernels: FxHashMap<&str, Vec<&Moved<'_>>> = FxHashMap::default();
        for moved in group {
            kernels.entry(moved.op).or_default().push(moved);
        }
        let mut fitting: Vec<(usize, FxHashMap<&str, Vec<usize>>)> = Vec::new();
        for &owner in &self.silent {
            let Some(nodes) = self.nodes.get(&(owner, attribute)) else { continue };
            let mut by_op: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
            for &node in nodes {
                by_op.entry(&self.index.nodes[node].proto.op_type).or_default().push(node);
            }
            let has = |(op, moved): (&&str, &Vec<&Moved<'_>>)| {
                by_op.get(op).is_some_and(|nodes| nodes.len() >= moved.len())
            };
            if self.is_in(owner, around) && kernels.iter().all(has) {
                fitting.push((owner, by_op));
            }
        }
        fitting.sort_by_key(|(owner, _)| *owner);
        let mut found = Vec::new();
        for (op, mut moved) in kernels {
            moved.sort_by_key(|moved| moved.position);
            let mut nodes: Vec<usize> =
                fitting.iter().filter_map(|(_, by_op)| by_op.get(op)).flatten().copied().collect();
            // The order is that of the branch. It identifies the nodes unless some were removed.
            if fitting.len() == 1 && nodes.len() == moved.len() {
                found.extend(moved.iter().zip(nodes).map(|(moved, node)| (moved.at, vec![node])));
                continue;
            }
            if nodes.len() > MOST {
                nodes = fitting.iter().map(|(owner, _)| *owner).take(MOST).collect();
            }
            found.extend(moved.iter().map(|moved| (moved.at, nodes.clone())));
        }
        found
    }

    /// Returns `true` if `node` is in the loop or branch of `around`, or in moved branches there.
    fn is_in(&self, node: usize, around: Option<&Target>) -> bool {
        let mut owner = self.index.owner(node);
        while let Some(moved) = owner.filter(|owner| self.silent.contains(owner)) {
            owner = self.index.owner(moved);
        }
        match around {
            Some(Target::Node(around, ..)) => owner == Some(*around),
            _ => owner.is_none(),
        }
    }
}
