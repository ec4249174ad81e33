use std::collections::BTreeSet;

use onnx::{Attrs, Graph, Op, assign_names};
use onnx_file::{EncodeOptions, encode};
use tensor::{DType, Tensor};

use crate::sample::{Sample, f32_type, floats, sample};

#[test]
fn nodes_are_named_by_module_and_operator() {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let custom = Op { domain: "pkg.test", name: "my/Op" };
    for at in [("blocks.3/q", Op::onnx("Exp")), ("blocks.3/q", Op::onnx("Exp")), ("", custom)] {
        s.node(Graph::MAIN, at, &[x], Attrs::new(), &[ty.clone(), ty.clone()]);
    }
    assign_names(&mut s.graph, &s.origins);
    let nodes: Vec<_> = s.graph.nodes_of(Graph::MAIN).map(|id| s.graph.node(id)).collect();
    let names: Vec<_> = nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["/blocks.3/q/Exp", "/blocks.3/q/Exp_1", "/my.Op"]);
    assert_eq!(s.graph.value(nodes[1].outputs[1]).name, "/blocks.3/q/Exp_1_output_1");
    assert_eq!(s.graph.value(x).name, "input_0");
}

#[test]
fn names_are_unique_over_graphs_subgraphs_and_functions() {
    let s = sample();
    let mut nodes = BTreeSet::new();
    for id in s.graph.all_nodes() {
        assert!(nodes.insert(&s.graph.node(id).name), "{}", s.graph.node(id).name);
    }
    let mut values = BTreeSet::new();
    for id in s.graph.value_ids() {
        let name = &s.graph.value(id).name;
        assert!(!name.is_empty() && values.insert(name), "{name}");
    }
    for name in ["/blocks.3/q/MatMul", "/If", "/Loop", "/Add", "/Add_1", "/Add_2"] {
        assert!(nodes.contains(&name.to_owned()), "{name}");
    }
    for name in ["dense.kernel", "Scale_in_0", "/Loop_body_in_2", "/If_output_0", "y"] {
        assert!(values.contains(&name.to_owned()), "{name}");
    }
    let model = encode(&s.graph, &EncodeOptions::new(23)).unwrap();
    for function in &model.proto.functions {
        for node in function.node.iter().filter(|n| n.op_type == "Constant") {
            assert!(!nodes.contains(&node.name), "{}", node.name);
        }
    }
}

#[test]
fn given_names_are_preserved_and_duplicates_renamed() {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let kernel = s.graph.add_constant(floats(&[], [1.0]));
    let y = s.op(Graph::MAIN, "Add", &[x, kernel], &ty);
    let z = s.op(Graph::MAIN, "Add", &[y, kernel], &ty);
    s.graph.set_outputs(Graph::MAIN, &[z]);
    s.graph.set_name(kernel, "x".to_owned());
    s.graph.set_name(x, "x".to_owned());
    s.graph.set_name(z, "/Add_output_0".to_owned());
    let last = s.graph.producer(z).unwrap();
    s.graph.set_node_name(last, "/Add".to_owned());
    assign_names(&mut s.graph, &s.origins);
    let name = |id| s.graph.value(id).name.as_str();
    assert_eq!([name(x), name(kernel), name(z)], ["x", "x_1", "/Add_output_0"]);
    assert_eq!(name(y), "/Add_1_output_0");

    let before = s.graph.clone();
    assign_names(&mut s.graph, &s.origins);
    for id in s.graph.value_ids() {
        assert_eq!(s.graph.value(id).name, before.value(id).name);
    }
}

#[test]
fn constants_are_named_by_content() {
    let scalar = |dtype, value| Tensor::scalar(dtype, value).unwrap();
    let ints = Tensor::i64s;
    let cases = [
        (floats(&[], [2.0]), "const/f32/2.0"),
        (floats(&[], [2.0]), "const/f32/2.0_copy1"),
        (floats(&[1], [2.0]), "const/f32/1x/2.0"),
        (floats(&[2], [0.1, -1e-9]), "const/f32/0.1_-1e-9"),
        (floats(&[3], [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]), "const/f32/nan_inf_-inf"),
        (scalar(DType::F64, 0.1), "const/f64/0.1"),
        (scalar(DType::F16, 0.5), "const/f16/0.5"),
        (scalar(DType::Bool, 1.0), "const/bool/1"),
        (ints(&[0, 2, 1]), "const/i64/0_2_1"),
        (ints(&[0, 2]), "const/i64/0_2"),
        (ints(&[0, 2]), "const/i64/0_2_copy1"),
        (ints(&[100]), "const/i64/1x/100"),
        (ints(&[1, 2, 3, 4]).reshaped(&[2, 2]).unwrap(), "const/i64/2x2/1_2_3_4"),
        (ints(&[]), "const/i64/0x"),
        (ints(&[7; 100]), "const/i64/100x"),
        (ints(&[8; 100]), "const/i64/100x_1"),
        (floats(&[2, 3, 2], [0.0; 12]), "const/f32/2x3x2"),
        (ints(&[1]).reshaped(&[]).unwrap(), "const/i64/1"),
    ];
    let mut s = Sample::empty();
    let values: Vec<_> =
        cases.iter().map(|(tensor, _)| s.graph.add_constant(tensor.clone())).collect();
    s.node(Graph::MAIN, ("", Op::onnx("Many")), &values, Attrs::new(), &[]);
    assign_names(&mut s.graph, &s.origins);
    for (value, (_, name)) in values.iter().zip(&cases) {
        assert_eq!(s.graph.value(*value).name, *name);
    }
}

#[test]
fn constants_without_readable_elements_are_named_by_shape() {
    let complex = vec![0u8; 8];
    let tensor = Tensor::new(DType::C64, &[], std::sync::Arc::new(complex)).unwrap();
    let mut s = Sample::empty();
    let value = s.graph.add_constant(tensor);
    s.node(Graph::MAIN, ("", Op::onnx("Identity")), &[value], Attrs::new(), &[]);
    assign_names(&mut s.graph, &s.origins);
    assert_eq!(s.graph.value(value).name, "const/c64/scalar");
}

/// This takes minutes if the search for a free name starts over each time.
#[test]
fn many_equal_names_are_handled_quickly() {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    for i in 0..100_000 {
        let y = s.op(Graph::MAIN, "Exp", &[x], &ty);
        if i % 2 == 0 {
            let node = s.graph.producer(y).unwrap();
            s.graph.set_node_name(node, format!("/Exp_{i}"));
        }
    }
    assign_names(&mut s.graph, &s.origins);
    let nodes = s.graph.nodes_of(Graph::MAIN).map(|id| s.graph.node(id).name.as_str());
    assert_eq!(nodes.collect::<BTreeSet<_>>().len(), 100_000);
}
