//! Makes each output of a block a distinct result of one of its own nodes, as ONNX requires.

use provenance::{Origins, Stage};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Attrs, BlockId, Builder, Function, Graph, NodeId, Op, Result, Source, ValueId};

/// Makes the outputs of every block valid, and names those of the main graph. An output that is an
/// input, a constant, an outer value or a duplicate gets an `Identity`.
pub fn seal_outputs(graph: &mut Graph, origins: &mut Origins, names: &[String]) -> Result<()> {
    for node in graph.nodes_with_blocks() {
        let blocks: Vec<BlockId> = graph.node(node).blocks().collect();
        for block in blocks {
            seal(graph, origins, block, Some(node))?;
        }
    }
    let mut callers: FxHashMap<Op, NodeId> = FxHashMap::default();
    if !graph.functions.is_empty() {
        for id in graph.all_nodes() {
            callers.entry(graph.node(id).op).or_insert(id);
        }
    }
    for Function { op, body } in graph.functions.clone() {
        seal(graph, origins, body, callers.get(&op).copied())?;
    }
    seal(graph, origins, Graph::MAIN, None)?;
    let outputs = graph.block(Graph::MAIN).outputs().to_vec();
    for (value, name) in outputs.into_iter().zip(names) {
        graph.value_mut(value).name.clone_from(name);
    }
    Ok(())
}

fn seal(
    graph: &mut Graph,
    origins: &mut Origins,
    block: BlockId,
    owner: Option<NodeId>,
) -> Result<()> {
    let mut outputs: Vec<ValueId> = graph.block(block).outputs().to_vec();
    let mut seen = FxHashSet::default();
    let mut changed = false;
    for value in &mut outputs {
        let producer = graph.producer(*value);
        let own = producer.is_some_and(|node| graph.node(node).block() == block);
        if own && seen.insert(*value) {
            continue;
        }
        let source = match owner {
            Some(node) => Source::Replacing(graph.node(node).origin),
            None => Source::Equation { call: None, scope: Origins::ROOT },
        };
        let rule = ("output", Stage::Lower);
        let mut builder = Builder::new(graph, origins, rule, source, block);
        *value = builder.op("Identity", &[*value], Attrs::new())?;
        changed = true;
    }
    if changed {
        graph.set_outputs(block, &outputs);
    }
    Ok(())
}
