//! Assigns descriptive names to values and nodes, unique in the whole model.

use provenance::Origins;
use rustc_hash::{FxHashMap, FxHashSet};
use tensor::{DType, Tensor};

use crate::text::float;
use crate::{Attr, BlockId, Graph, NodeId, Producer, ValueId};

/// The prefix of the names of constants that are not parameters.
pub const CONSTANT_PREFIX: &str = "const/";

/// The largest number of elements of a constant that is named after its elements.
const SHOWN_ELEMENTS: usize = 8;

/// Names every value and node that has no name yet.
///
/// Existing names are kept; if two are equal, the later one gets a suffix. A node is named after
/// its module and operator (`/blocks.3/q/MatMul`), its results after the node
/// (`/blocks.3/q/MatMul_output_0`), a constant after its elements (`const/i64/0_2_1`) or its shape.
/// The names depend only on the graph and the scopes of its nodes' origins.
pub fn assign_names(graph: &mut Graph, origins: &Origins) {
    name_nodes(graph, origins);
    name_values(graph);
}

fn name_nodes(graph: &mut Graph, origins: &Origins) {
    let nodes = graph.all_nodes();
    let mut names = Names::default();
    let (named, unnamed): (Vec<NodeId>, Vec<NodeId>) =
        nodes.into_iter().partition(|id| !graph.node(*id).name.is_empty());
    for id in named {
        let name = std::mem::take(&mut graph.node_mut(id).name);
        graph.node_mut(id).name = names.unique(name, "_");
    }
    for id in unnamed {
        let node = graph.node(id);
        let scope = origins.scope_path(origins.naming_scope(node.origin));
        let op = node.op.name.replace('/', ".");
        let base = match scope {
            "" => ["/", &op].concat(),
            _ => ["/", scope, "/", &op].concat(),
        };
        graph.node_mut(id).name = names.unique(base, "_");
    }
}

fn name_values(graph: &mut Graph) {
    let mut names = Names::default();
    let values = live_values(graph);
    let (named, unnamed): (Vec<_>, Vec<_>) =
        values.into_iter().partition(|(id, _)| !graph.value(*id).name.is_empty());
    for (id, _) in named {
        let name = std::mem::take(&mut graph.value_mut(id).name);
        graph.value_mut(id).name = names.unique(name, "_");
    }
    for (id, role) in unnamed {
        let name = match role {
            Role::Input(owner, i) => names.unique(format!("{owner}_{i}"), "_"),
            Role::Output(node, i) => {
                names.unique(format!("{}_output_{i}", graph.node(node).name), "_")
            }
            Role::Constant => match graph.constant(id).map(constant_name) {
                Some((base, separator)) => names.unique(base, separator),
                None => continue,
            },
        };
        graph.value_mut(id).name = name;
    }
}

/// The role of a value in its block.
enum Role {
    /// An input at a position, with the prefix of its name.
    Input(String, usize),
    Output(NodeId, usize),
    Constant,
}

/// Returns every value of the model once: inputs, outputs and constants first, then all others.
fn live_values(graph: &Graph) -> Vec<(ValueId, Role)> {
    let mut found = Vec::new();
    let mut seen = vec![false; graph.value_count()];
    let mut add = |id: ValueId, role: Role| {
        if !std::mem::replace(&mut seen[id.index()], true) {
            found.push((id, role));
        }
    };
    for (i, input) in graph.block(Graph::MAIN).inputs.iter().enumerate() {
        add(*input, Role::Input("input".to_owned(), i));
    }
    for output in graph.block(Graph::MAIN).outputs() {
        if let Producer::Node(node, i) = graph.value(*output).producer() {
            add(*output, Role::Output(*node, *i));
        }
    }
    for (constant, _) in graph.live_tensors() {
        add(constant, Role::Constant);
    }
    let owners = block_owners(graph);
    for block in graph.live_blocks() {
        for (i, input) in graph.block(block).inputs.iter().enumerate() {
            let owner = owners.get(&block).cloned().unwrap_or_else(|| "body".to_owned());
            add(*input, Role::Input(format!("{owner}_in"), i));
        }
        for node in graph.nodes_of(block) {
            for (i, output) in graph.node(node).outputs.iter().enumerate() {
                add(*output, Role::Output(node, i));
            }
        }
    }
    found
}

/// Returns the prefixes for the inputs of each block: the name of the function, or of the node and
/// its attribute.
fn block_owners(graph: &Graph) -> FxHashMap<BlockId, String> {
    let mut owners = FxHashMap::default();
    for function in &graph.functions {
        owners.insert(function.body, function.op.name.to_owned());
    }
    for id in graph.all_nodes() {
        let node = graph.node(id);
        for (attribute, value) in &node.attrs {
            if let Attr::Graph(block) = value {
                owners.insert(*block, format!("{}_{attribute}", node.name));
            }
        }
    }
    owners
}

/// Returns the name of a constant, and the separator before a number that makes the name unique. A
/// number after `_` would look like another element.
fn constant_name(tensor: &Tensor) -> (String, &'static str) {
    let dtype = tensor.dtype();
    let shape = match tensor.shape() {
        [] => "scalar".to_owned(),
        [n] => format!("{n}x"),
        dims => dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x"),
    };
    match element_text(tensor) {
        Some(text) if matches!(tensor.shape(), [] | [2..=SHOWN_ELEMENTS]) => {
            (format!("{CONSTANT_PREFIX}{dtype}/{text}"), "_copy")
        }
        Some(text) => (format!("{CONSTANT_PREFIX}{dtype}/{shape}/{text}"), "_copy"),
        None => (format!("{CONSTANT_PREFIX}{dtype}/{shape}"), "_"),
    }
}

/// Returns the elements of a small tensor, joined by `_`.
fn element_text(tensor: &Tensor) -> Option<String> {
    if !(1..=SHOWN_ELEMENTS).contains(&tensor.len()) {
        return None;
    }
    let words: Vec<String> = match tensor.to_ints() {
        Some(ints) => ints.iter().map(i128::to_string).collect(),
        None => tensor.to_f64s()?.iter().map(|v| float_text(tensor.dtype(), *v)).collect(),
    };
    Some(words.join("_"))
}

/// Returns the shortest text that parses to the same number.
fn float_text(dtype: DType, value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "narrower than f64, so it came from an f32"
    )]
    let narrow = value as f32;
    if dtype == DType::F64 { float(value) } else { float(narrow) }
}

/// The names in use. Making a name unique takes amortised constant time: a name can only collide
/// with the one shorter name that it extends by a number, and only once.
#[derive(Debug, Default)]
pub struct Names {
    taken: FxHashSet<String>,
    next: FxHashMap<String, u32>,
}

impl Names {
    /// Returns `base`, or if it is taken, `base` with the separator and the first free number.
    pub fn unique(&mut self, base: String, separator: &str) -> String {
        if self.taken.insert(base.clone()) {
            return base;
        }
        let next = self.next.entry(base.clone()).or_insert(1);
        loop {
            let name = format!("{base}{separator}{next}");
            *next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}
