use onnx::{Attrs, Function, Graph, Op};
use onnx_file::{map_inputs, map_nodes};

use crate::sample::{SCALE, Sample, f32_type, sample};

/// Returns the names of all nodes in a source map, each with those of its producers.
fn producers(graph: &Graph) -> Vec<(String, Vec<String>)> {
    let nodes = map_nodes(graph);
    let name = |index: &usize| nodes[*index].name.to_string();
    nodes
        .iter()
        .map(|node| (node.name.to_string(), node.inputs.iter().map(name).collect()))
        .collect()
}

#[test]
fn nodes_refer_to_their_producers_through_functions() {
    let s = sample();
    let found = producers(&s.graph);
    let of = |name: &str| {
        let (_, producers) = found.iter().find(|(found, _)| found == name).unwrap();
        producers.iter().map(String::as_str).collect::<Vec<_>>()
    };
    assert_eq!(of("/blocks.3/q/MatMul"), [""; 0]);
    assert_eq!(of("/blocks.3/Scale"), ["/Add"]);
    assert_eq!(of("/Loop"), ["/If", "/blocks.3/q/MatMul"]);
    let last = found.last().unwrap();
    assert_eq!(last.0, "/Scale/Constant_1");
    let outputs = map_nodes(&s.graph)[0].outputs.clone();
    assert_eq!(outputs, ["/blocks.3/q/MatMul_output_0"]);
}

#[test]
fn inputs_of_all_blocks_are_listed() {
    let s = sample();
    let inputs = map_inputs(&s.graph);
    assert_eq!(inputs[..2], ["x", "flag"]);
    assert!(inputs.contains(&"Scale_in_0") && inputs.contains(&"/Loop_body_in_3"), "{inputs:?}");
}

#[test]
fn results_of_a_call_with_several_are_not_told_apart() {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let body = s.graph.add_block();
    let a = s.graph.add_input(body, ty.clone());
    let results = [s.op(body, "Neg", &[a], &ty), s.op(body, "Abs", &[a], &ty)];
    s.graph.set_outputs(body, &results);
    s.graph.functions.push(Function { op: SCALE, body });
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let types = [ty.clone(), ty.clone()];
    let called = s.node(Graph::MAIN, ("", SCALE), &[x], Attrs::new(), &types);
    let sum = s.node(Graph::MAIN, ("", Op::onnx("Add")), &called, Attrs::new(), &[ty]);
    s.graph.set_outputs(Graph::MAIN, &sum);
    onnx::assign_names(&mut s.graph, &s.origins);
    let found = producers(&s.graph);
    assert_eq!(found[0], ("/Scale".to_owned(), vec![]));
    assert_eq!(found[1], ("/Add".to_owned(), vec!["/Scale".to_owned(), "/Scale".to_owned()]));
}
