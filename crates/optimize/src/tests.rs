//! The runner and the pipeline: provenance, fuel, failures, effort.

use onnx::text::print;
use onnx::{Graph, ValueId, attrs};
use provenance::Origins;

use crate::testing::graph;
use crate::{
    Editor, Error, Match, Options, Problem, Report, Rewrite, Skip, Verify, optimize, runner,
};

fn optimized(text: &str, options: &Options) -> (Graph, Origins, Report) {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    optimize(&mut g, &mut origins, &Options::default()).unwrap();
    let found: Vec<_> = g.all_nodes().into_iter().map(|id| g.node(id).op.name).collect();
    assert_eq!(found, ["Gather"]);
}
