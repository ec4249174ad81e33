//! The constants that functions read. A function has no initializers, so its constants are nodes of
//! its body.

use indexmap::IndexMap;
use onnx::{BlockId, Function, Graph, Names, NodeId, ValueId};
use rustc_hash::FxBuildHasher;

/// A constant of a function.
#[derive(Clone, Debug)]
pub(crate) struct FunctionConstant {
    /// The constant.
    pub(crate) value: ValueId,
    /// The first node that reads the constant. It provides the origin.
    pub(crate) reader: NodeId,
    /// The name of the `Constant` node.
    pub(crate) name: String,
}

/// Returns the constants of each function. The nodes of the graph must have names.
pub(crate) fn function_constants(graph: &Graph) -> Vec<Vec<FunctionConstant>> {
    if graph.functions.is_empty() {
        return Vec::new();
    }
    let mut names = Names::default();
    for id in graph.all_nodes() {
        names.unique(graph.node(id).name.clone(), "_");
    }
    let mut of = |function: &Function| {
        let mut readers = IndexMap::default();
        collect(graph, function.body, &mut readers);
        readers.sort_unstable_keys();
        let base = format!("/{}/Constant", function.op.name.replace('/', "."));
        let constants = readers.into_iter();
        let constants = constants.map(|(value, reader)| FunctionConstant {
            value,
            reader,
            name: names.unique(base.clone(), "_"),
        });
        constants.collect()
    };
    graph.functions.iter().map(&mut of).collect()
}

fn collect(graph: &Graph, block: BlockId, readers: &mut IndexMap<ValueId, NodeId, FxBuildHasher>) {
    for id in graph.nodes_of(block) {
        let node = graph.node(id);
        for value in node.inputs.iter().flatten().filter(|v| graph.tensor(**v).is_some()) {
            readers.entry(*value).or_insert(id);
        }
        for inner in node.blocks() {
            collect(graph, inner, readers);
        }
    }
}
