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

#[cfg(test)]
mod tests {
    use onnx_file::proto::{AttributeProto, GraphProto, ModelProto, NodeProto};

    use super::super::{Profile, Time, attribute};
    use super::*;
    use crate::model::Model;

    fn node(op: &str, name: &str) -> NodeProto {
        NodeProto { op_type: op.to_owned(), name: name.to_owned(), ..NodeProto::default() }
    }

    fn body(attribute: &str, node: Vec<NodeProto>) -> AttributeProto {
        let graph = GraphProto { node, ..GraphProto::default() };
        AttributeProto {
            name: attribute.to_owned(),
            g: Some(Box::new(graph)),
            ..AttributeProto::default()
        }
    }

    /// Returns an `If` whose branches add twice and negate, or multiply.
    fn branches(name: &str, prefix: &str) -> NodeProto {
        let named = |op: &str, name: &str| node(op, &format!("{prefix}{name}"));
        let otherwise = vec![named("Add", "a"), named("Add", "b"), named("Neg", "n")];
        let attribute =
            vec![body("then_branch", vec![named("Mul", "m")]), body("else_branch", otherwise)];
        NodeProto { attribute, ..node("If", name) }
    }

    /// Returns what `read` makes of the target of each kernel. A kernel has an operator, a name, a
    /// position and the kernel around it.
    fn targets<T>(
        nodes: Vec<NodeProto>,
        kernels: &[(&str, &str, usize, Option<usize>)],
        read: impl Fn(&Index<'_>, &Target) -> T,
    ) -> Vec<T> {
        let graph = Some(GraphProto { node: nodes, ..GraphProto::default() });
        let proto = ModelProto { graph, ..ModelProto::default() };
        let model = Model { path: None, proto, map: None, map_path: None, remarks: vec![] };
        let index = Index::new(&model);
        let kernel = |(op, name, position, inside): &(&str, &str, usize, Option<usize>)| Kernel {
            name: (*name).to_owned(),
            op: (*op).to_owned(),
            position: Some(*position),
            provider: String::new(),
            inside: *inside,
            feeder: None,
            calls: 1,
            time: Time::default(),
        };
        let profile = Profile { runs: 1, wall: 0, kernels: kernels.iter().map(kernel).collect() };
        attribute(&index, &profile).iter().map(|(_, target)| read(&index, target)).collect()
    }

    /// Returns the names of the nodes that each kernel ran.
    fn ran(nodes: Vec<NodeProto>, kernels: &[(&str, &str, usize, Option<usize>)]) -> Vec<String> {
        targets(nodes, kernels, |index, target| match target {
            Target::Node(node, _, also) => {
                let nodes = std::iter::once(node).chain(also);
                let names = nodes.map(|node| index.nodes[*node].proto.name.clone());
                names.collect::<Vec<_>>().join(" ")
            }
            _ => "?".to_owned(),
        })
    }

    #[test]
    fn nodes_of_a_branch_are_found_by_operator_and_order() {
        let kernels = [
            ("Add", "_if_else_branch_Add_token_2", 2, None),
            ("Add", "_if_else_branch_Add_token_1", 1, None),
            ("Neg", "_if_else_branch_Neg_token_3", 3, None),
            ("Mul", "_if_then_branch_Mul_token_1", 4, None),
        ];
        assert_eq!(ran(vec![branches("/If", "")], &kernels), ["b", "a", "n", "m"]);
    }

    #[test]
    fn fewer_kernels_than_nodes_may_be_any_of_them() {
        let one = [("Add", "_if_else_branch_Add_token_1", 1, None)];
        assert_eq!(ran(vec![branches("/If", "")], &one), ["a b"]);
        let more = [1, 2, 3].map(|at| ("Add", "_if_else_branch_Add_token_1", at, None));
        assert_eq!(ran(vec![branches("/If", "")], &more), ["?", "?", "?"], "no branch has three");
    }

    #[test]
    fn branches_that_are_alike_are_candidates_unless_they_ran() {
        let both = || vec![branches("/If", "p."), branches("/If_1", "q.")];
        let neg = ("Neg", "_if_else_branch_Neg_token_3", 3, None);
        assert_eq!(ran(both(), &[neg]), ["p.n q.n"]);
        assert_eq!(ran(both(), &[("If", "/If", 0, None), neg]), ["/If", "q.n"]);
    }

    #[test]
    fn branches_belong_to_the_loop_around_them() {
        let inner = NodeProto {
            attribute: vec![body("body", vec![branches("/Loop/If", "l.")])],
            ..node("Loop", "/Loop")
        };
        let nodes = || vec![inner.clone(), branches("/If", "")];
        let neg = |inside| ("Neg", "_if_else_branch_Neg_token_3", 3, inside);
        let around = ("Loop", "/Loop", 0, None);
        assert_eq!(ran(nodes(), &[around, neg(Some(0))]), ["/Loop", "l.n"]);
        assert_eq!(ran(nodes(), &[around, neg(None)]), ["/Loop", "n"]);
    }

    #[test]
    fn an_if_represents_branches_of_many_nodes() {
        let large = |count: usize| {
            let nodes = (0..count).map(|at| node("Add", &at.to_string())).collect();
            NodeProto { attribute: vec![body("else_branch", nodes)], ..node("If", "/If") }
        };
        let one = [("Add", "_if_else_branch_Add_token_1", 1, None)];
        assert_eq!(ran(vec![large(65)], &one), ["/If"]);
        assert_eq!(ran(vec![large(64)], &one)[0].split(' ').count(), 64);
    }

    #[test]
    fn nodes_without_names_are_found_by_position() {
        let nodes = || vec![node("Add", ""), node("Neg", ""), node("Neg", "/Neg")];
        let kernels = [
            ("Add", "Add_0", 0, None),
            ("Neg", "Neg_1", 1, None),
            ("Neg", "Neg_2", 2, None),
            ("Neg", "Neg_0", 0, None),
            ("Neg", "Neg_9", 1, None),
        ];
        let found = ran(nodes(), &kernels);
        assert_eq!(found, ["", "", "?", "?", "?"]);
        let nested = vec![node("Neg", ""), branches("/If", "")];
        assert_eq!(ran(nested, &[("Neg", "Neg_0", 0, None)]), ["?"], "positions count per graph");
    }

    #[test]
    fn names_are_unique_only_within_a_graph() {
        let inner = NodeProto {
            attribute: vec![body("body", vec![node("Neg", "/Neg")])],
            ..node("Loop", "/Loop")
        };
        let same = vec![node("Neg", "/Neg"), inner];
        let kernels =
            [("Loop", "/Loop", 1, None), ("Neg", "/Neg", 0, Some(0)), ("Neg", "/Neg", 0, None)];
        let nodes = targets(same, &kernels, |_, target| match target {
            Target::Node(node, ..) => Some(*node),
            _ => None,
        });
        assert_eq!(nodes, [Some(1), Some(2), Some(0)]);
    }
}
