use onnx::text::print;
use provenance::{Origins, Stacks};

use super::{Compute, narrow};
use crate::legalize::Target;
use crate::testing::graph;

/// The lines of the graph below its head, or the error.
fn narrowed(text: &str, compute: &str) -> Result<String, String> {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    let compute = Compute::parse(compute).unwrap();
    let (stacks, target) = (Stacks::default(), Target::OnnxRuntime);
    narrow(&mut graph, &mut origins, &stacks, &compute, 23, target).map_err(|e| e.to_string())?;
    onnx::verify(&graph, None).unwrap();
    Ok(print(&graph))
}

/// How the model computes, one operator a line, with the element type of its result.
fn operators(text: &str) -> Vec<String> {
    let node = |line: &str| {
        let (_, call) = line.trim().split_once(" = ")?;
        Some(call.split([' ', '<', '(']).next()?.to_owned())
    };
    text.lines().filter_map(node).collect()
}
