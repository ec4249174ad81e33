//! The outputs of a model: each a distinct, named result of a node.

use provenance::{Origins, Stage};
use rustc_hash::FxHashSet;

use crate::{Attrs, Builder, Graph, Producer, Result, Source};

/// Names the main graph's outputs. An output that is an input, a constant or an output already
/// passes through `Identity`, since ONNX lets none of these be one.
pub fn name_outputs(graph: &mut Graph, origins: &mut Origins, names: &[String]) -> Result<()> {
    let mut outputs = graph.block(Graph::MAIN).outputs().to_vec();
    let mut seen = FxHashSet::default();
    for (value, name) in outputs.iter_mut().zip(names) {
        let computed = matches!(graph.value(*value).producer(), Producer::Node(..));
        if !computed || !seen.insert(*value) {
            let mut builder = Builder {
                graph,
                origins,
                name: "output",
                stage: Stage::Lower,
                source: Source::Equation { call: None, scope: Origins::ROOT },
                block: Graph::MAIN,
                before: None,
            };
            *value = builder.op("Identity", &[*value], Attrs::new())?;
        }
        graph.value_mut(*value).name.clone_from(name);
    }
    graph.set_outputs(Graph::MAIN, &outputs);
    Ok(())
}
