//! Decides where constants are printed, and names the values.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{BlockId, Graph, NodeId, Producer, ValueId, collect_operands};

/// The largest number of elements that a constant is printed with. Larger ones are printed without
/// their data.
pub const SHOWN: usize = 256;

/// Returns `true` if the data of a constant is not printed.
pub(super) fn is_elided(graph: &Graph, value: ValueId) -> bool {
    graph.tensor(value).is_some_and(|tensor| tensor.len() > SHOWN)
}

/// The positions of the constants of the main graph or a function, including its subgraphs.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The constants in the list of initializers.
    pub(super) listed: Vec<ValueId>,
    /// The constants that become `Constant` nodes, by the node that follows them.
    pub(super) before: FxHashMap<NodeId, Vec<ValueId>>,
    /// The constants that become `Constant` nodes at the end.
    pub(super) last: Vec<ValueId>,
}

impl Layout {
    pub(super) fn new(graph: &Graph, body: BlockId) -> Self {
        let mut layout = Self::default();
        let mut seen = FxHashSet::default();
        let mut uses = Vec::new();
        for id in graph.nodes_of(body) {
            collect_operands(graph, id, &mut uses);
            let nodes = layout.place(graph, body, &mut uses, &mut seen);
            if !nodes.is_empty() {
                layout.before.insert(id, nodes);
            }
        }
        uses.extend(graph.block(body).outputs());
        layout.last = layout.place(graph, body, &mut uses, &mut seen);
        layout
    }

    /// Removes all values from `uses` and places the constants among them that were not seen
    /// before. Returns those that become `Constant` nodes.
    fn place(
        &mut self,
        graph: &Graph,
        body: BlockId,
        uses: &mut Vec<ValueId>,
        seen: &mut FxHashSet<ValueId>,
    ) -> Vec<ValueId> {
        uses.retain(|v| graph.tensor(*v).is_some() && seen.insert(*v));
        // Functions have no initializers.
        let named = |v: &ValueId| body == Graph::MAIN && !graph.value(*v).name.is_empty();
        let listed = |v: &ValueId| named(v) || is_elided(graph, *v);
        let (listed, nodes): (Vec<_>, _) = uses.drain(..).partition(listed);
        self.listed.extend(listed);
        nodes
    }
}

/// The names of all values. A value without a name is numbered in order of appearance.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    names: FxHashMap<ValueId, String>,
    /// The names that values have themselves.
    taken: FxHashSet<&'a str>,
    next: usize,
}

impl<'a> Names<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        let mut names = Self::default();
        for id in graph.value_ids() {
            let value = graph.value(id);
            let gone = match value.producer() {
                Producer::Removed => true,
                Producer::Constant(_) | Producer::Parameter(_) => !value.is_used(),
                _ => false,
            };
            let name = value.name.as_str();
            if !gone && !name.is_empty() && names.taken.insert(name) {
                names.names.insert(id, name.to_owned());
            }
        }
        names
    }

    pub(super) fn get(&mut self, id: ValueId) -> String {
        if let Some(name) = self.names.get(&id) {
            return name.clone();
        }
        let name = loop {
            let name = format!("v{}", self.next);
            self.next += 1;
            if !self.taken.contains(name.as_str()) {
                break name;
            }
        };
        self.names.insert(id, name.clone());
        name
    }
}
