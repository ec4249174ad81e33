use onnx::{Attr, Attrs, Function, Graph, Op, ValueId, assign_names, attrs};
use onnx_file::proto::{
    DimensionValue, GraphProto, ModelProto, NodeProto, Segment, StringStringEntryProto,
    TensorProto, TypeValue, ValueInfoProto,
};
use onnx_file::{EncodeOptions, Error, encode, read};
use prost::Message as _;
use tensor::{DType, Dim, Tensor, Type};

use crate::sample::{SCALE, Sample, f32_type, floats, sample};

fn options() -> EncodeOptions<'static> {
    EncodeOptions::new(23)
}

fn encoded(s: &mut Sample) -> Result<ModelProto, Error> {
    assign_names(&mut s.graph, &s.origins);
    Ok(encode(&s.graph, &options())?.proto)
}

fn main_graph(model: &ModelProto) -> &GraphProto {
    model.graph.as_ref().unwrap()
}

fn shape(info: &ValueInfoProto) -> (i32, Vec<String>) {
    let Some(TypeValue::TensorType(ty)) = &info.r#type.as_ref().unwrap().value else {
        panic!("{info:?}")
    };
    let dim = |value: &Option<DimensionValue>| match value {
        Some(DimensionValue::DimValue(n)) => n.to_string(),
        Some(DimensionValue::DimParam(text)) => format!("`{text}`"),
        None => "?".to_owned(),
    };
    (ty.elem_type, ty.shape.as_ref().unwrap().dim.iter().map(|d| dim(&d.value)).collect())
}

fn names<'a>(infos: impl IntoIterator<Item = &'a ValueInfoProto>) -> Vec<&'a str> {
    infos.into_iter().map(|v| v.name.as_str()).collect()
}

#[test]
fn a_model_survives_the_round_trip() {
    let s = sample();
    let model = encode(&s.graph, &options()).unwrap();
    assert_eq!(read(model.to_bytes().unwrap()).unwrap(), model.proto);
    let graph = main_graph(&model.proto);
    assert_eq!(names(&graph.input), ["x", "flag"]);
    assert_eq!(names(&graph.output), ["y", "z"]);
    assert_eq!(shape(&graph.input[0]), (1, vec!["`b`".to_owned(), "4".to_owned()]));
    assert_eq!(shape(&graph.input[1]), (9, vec![]));
    let inner = ["/blocks.3/q/MatMul_output_0", "/blocks.3/Scale_output_0", "/If_output_0"];
    assert_eq!(names(&graph.value_info), inner);
    let looped = &graph.node[3];
    assert_eq!(looped.input[1], "");
    let body = looped.attribute[0].g.as_ref().unwrap();
    assert_eq!(body.name, "/Loop/body");
    assert_eq!(names(&body.output), ["/Loop_body_in_1", "/Add_2_output_0", "/Loop_body_in_3"]);
}

#[test]
fn parameters_come_first_and_constants_are_written_once() {
    let s = sample();
    let model = encode(&s.graph, &options()).unwrap().proto;
    let initializers = &main_graph(&model).initializer;
    let names: Vec<_> = initializers.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["dense.kernel", "dense.bias", "const/f32/2.0", "const/i64/3"]);
    // Constants that only a body reads are declared there.
    let inner = main_graph(&model).node.iter().flat_map(|node| &node.attribute);
    let inner = inner.filter_map(|attr| attr.g.as_ref()).flat_map(|body| &body.initializer);
    let inner: Vec<_> = inner.map(|t| t.name.as_str()).collect();
    assert_eq!(inner, ["const/f32/1.0"]);
    assert_eq!(initializers[0].dims, [4, 300]);
    let data = initializers[0].raw_data.as_ref().unwrap();
    assert_eq!(data[..4], (-4f32).to_le_bytes());
    let kernel = s.graph.value_ids().find_map(|id| s.graph.tensor(id).filter(|t| t.len() == 1200));
    assert_eq!(data.as_ptr(), kernel.unwrap().bytes().unwrap().as_ptr(), "the bytes were copied");
}

#[test]
fn functions_contain_their_own_constants() {
    let s = sample();
    let mut options = options();
    options.node_metadata = &|node| vec![("made by", node.name.clone())];
    let model = encode(&s.graph, &options).unwrap().proto;
    let [function] = &model.functions[..] else { panic!("{:?}", model.functions) };
    assert_eq!((function.domain.as_str(), function.name.as_str()), (SCALE.domain, SCALE.name));
    assert_eq!(
        (&function.input[..], &function.output[..]),
        (&["Scale_in_0".to_owned()][..], &["/Add_output_0".to_owned()][..])
    );
    let ops: Vec<_> = function.node.iter().map(|n| n.op_type.as_str()).collect();
    assert_eq!(ops, ["Constant", "Constant", "Mul", "Add"]);
    let made_by = |node: &NodeProto| node.metadata_props[0].value.clone();
    let makers: Vec<_> = function.node.iter().map(made_by).collect();
    assert_eq!(makers, ["/Mul", "/Add", "/Mul", "/Add"]);
    assert_eq!(function.node[0].output, [function.node[2].input[1].clone()]);
    assert_eq!(names(&function.value_info), ["Scale_in_0", "/Mul_output_0", "/Add_output_0"]);
    let imports = |list: &[onnx_file::proto::OperatorSetIdProto]| {
        list.iter().map(|o| (o.domain.clone(), o.version)).collect::<Vec<_>>()
    };
    assert_eq!(imports(&function.opset_import), [(String::new(), 23)]);
    let both = [(String::new(), 23), ("pkg.test".to_owned(), 1)];
    assert_eq!(imports(&model.opset_import), both);
}

#[test]
fn equal_graphs_give_equal_bytes() {
    let bytes = || encode(&sample().graph, &options()).unwrap().to_bytes().unwrap();
    assert_eq!(bytes(), bytes());
}

#[test]
fn attributes_keep_their_order_and_kind() {
    let mut s = Sample::empty();
    let attrs = vec![
        ("zeta", Attr::Int(0)),
        ("alpha", Attr::Float(0.0)),
        ("text", Attr::from("")),
        ("ints", Attr::Ints(vec![])),
        ("floats", Attr::Floats(vec![1.0, 2.0])),
        ("words", Attr::Strings(vec!["a".into(), "".into()])),
        ("value", Attr::Tensor(Tensor::bools(&[2], &[true, false]))),
    ];
    s.node(Graph::MAIN, ("", Op { domain: "d", name: "Op" }), &[], attrs, &[]);
    let model = encoded(&mut s).unwrap();
    let attributes = &main_graph(&model).node[0].attribute;
    let kinds: Vec<_> = attributes.iter().map(|a| (a.name.as_str(), a.r#type)).collect();
    let expected =
        [("zeta", 2), ("alpha", 1), ("text", 3), ("ints", 7), ("floats", 6), ("words", 8)];
    assert_eq!(kinds, [&expected[..], &[("value", 4)]].concat());
    assert_eq!((attributes[0].i, attributes[1].f), (Some(0), Some(0.0)));
    assert_eq!(attributes[2].s.as_deref(), Some(&b""[..]));
    let value = attributes[6].t.as_ref().unwrap();
    assert_eq!((value.data_type, value.raw_data.as_deref()), (9, Some(&[1u8, 0][..])));
}

#[test]
fn omitted_operands_at_the_end_are_not_written() {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let origin = s.origin("");
    let inputs = vec![Some(x), None, Some(x), None, None];
    let node = (Op::onnx("Clip"), inputs, Attrs::new());
    s.graph.add_node(Graph::MAIN, None, node, vec![ty], origin);
    let model = encoded(&mut s).unwrap();
    assert_eq!(main_graph(&model).node[0].input, ["input_0", "", "input_0"]);
}

#[test]
fn symbolic_sizes_are_written_as_text() {
    let mut s = Sample::empty();
    let size = Dim::parse("4*b + floordiv(t, 2)").unwrap();
    s.graph.add_input(Graph::MAIN, f32_type(&[size, Dim::Known(0)]));
    let model = encoded(&mut s).unwrap();
    let (_, dims) = shape(&main_graph(&model).input[0]);
    let [symbolic, zero] = &dims[..] else { panic!("{dims:?}") };
    let text = symbolic.trim_matches('`');
    assert_eq!(Dim::parse(text).unwrap(), Dim::parse("4*b + floordiv(t, 2)").unwrap());
    assert_eq!(zero, "0");
}

#[test]
fn only_newer_element_types_raise_the_ir_version() {
    for (dtype, version) in [
        (DType::F32, 10),
        (DType::I4, 10),
        (DType::F8E4M3FN, 10),
        (DType::F4E2M1FN, 11),
        (DType::F8E8M0FNU, 12),
        (DType::U2, 13),
    ] {
        let mut s = Sample::empty();
        s.graph.add_input(Graph::MAIN, Type::new(dtype, []));
        assert_eq!(encoded(&mut s).unwrap().ir_version, version, "{dtype}");
    }
}

/// Returns the error for a graph that returns the values that `pick` chooses from an input, a
/// constant and two results.
fn returning(pick: impl Fn([ValueId; 4]) -> Vec<ValueId>) -> String {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let one = s.graph.add_constant(floats(&[], [1.0]));
    let y = s.op(Graph::MAIN, "Add", &[x, one], &ty);
    let branch = s.graph.add_block();
    let inner = s.op(branch, "Exp", &[y], &ty);
    let attrs = attrs! { body: branch };
    s.node(Graph::MAIN, ("", Op::onnx("Scan")), &[y], attrs, &[]);
    s.graph.set_outputs(Graph::MAIN, &pick([x, one, y, inner]));
    encoded(&mut s).unwrap_err().to_string()
}

#[test]
fn a_graph_returns_distinct_results_of_its_own_nodes() {
    let problem = "invalid graph: the main graph returns";
    assert_eq!(
        returning(|[x, ..]| vec![x]),
        format!("{problem} `input_0` which none of its nodes compute")
    );
    assert_eq!(
        returning(|[_, one, ..]| vec![one]),
        format!("{problem} `const/f32/1.0` which none of its nodes compute")
    );
    assert_eq!(returning(|[.., y, _]| vec![y, y]), format!("{problem} `/Add_output_0` twice"));
    assert_eq!(
        returning(|[.., inner]| vec![inner]),
        format!("{problem} `/Exp_output_0` which none of its nodes compute")
    );
}

#[test]
fn a_subgraph_cannot_return_outer_values() {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let branch = s.graph.add_block();
    s.graph.set_outputs(branch, &[x]);
    s.node(Graph::MAIN, ("", Op::onnx("If")), &[x], attrs! { then_branch: branch }, &[ty]);
    let error = encoded(&mut s).unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid graph: a subgraph returns `input_0` which none of its nodes compute"
    );
}

#[test]
fn nodes_read_only_visible_values() {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let body = s.graph.add_block();
    let inner = s.op(body, "Exp", &[x], &ty);
    s.graph.set_outputs(body, &[inner]);
    s.graph.functions.push(Function { op: SCALE, body });
    let captured = encoded(&mut s).unwrap_err().to_string();
    let problem = "reads `input_0`, which is not computed before it";
    assert_eq!(captured, format!("invalid graph: `/Exp` (Exp) {problem}"));

    let mut s = Sample::empty();
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let late = s.op(Graph::MAIN, "Exp", &[x], &ty);
    let origin = s.origin("");
    let first = s.graph.producer(late);
    let node = (Op::onnx("Neg"), vec![Some(late)], Attrs::new());
    s.graph.add_node(Graph::MAIN, first, node, vec![ty], origin);
    let error = encoded(&mut s).unwrap_err().to_string();
    assert!(error.contains("`/Neg` (Neg) reads `/Exp_output_0`"), "{error}");
}

#[test]
fn names_are_required_and_must_differ() {
    let mut s = Sample::empty();
    let ty = f32_type(&[]);
    let x = s.graph.add_input(Graph::MAIN, ty.clone());
    let error = encode(&s.graph, &options()).unwrap_err().to_string();
    assert_eq!(error, "invalid graph: value 0 has no name");
    let y = s.graph.add_input(Graph::MAIN, ty);
    for value in [x, y] {
        s.graph.set_name(value, "x".to_owned());
    }
    let error = encode(&s.graph, &options()).unwrap_err().to_string();
    assert_eq!(error, "invalid graph: two values are named `x`");
}

#[test]
fn a_function_is_defined_once() {
    let mut s = Sample::empty();
    for _ in 0..2 {
        let body = s.graph.add_block();
        s.graph.functions.push(Function { op: SCALE, body });
    }
    let error = encoded(&mut s).unwrap_err().to_string();
    assert_eq!(error, "invalid graph: two functions are named pkg.test::Scale");
}

/// Returns a graph with `depth` nested subgraphs.
fn nested(depth: usize) -> Sample {
    let mut s = Sample::empty();
    let mut block = Graph::MAIN;
    let ty = f32_type(&[Dim::var("b")]);
    for _ in 0..depth {
        let inner = s.graph.add_block();
        s.graph.add_input(inner, ty.clone());
        s.node(block, ("", Op::onnx("Scan")), &[], attrs! { body: inner }, &[]);
        block = inner;
    }
    s
}

#[test]
fn graphs_too_deep_for_protobuf_readers_are_refused() {
    let model = encoded(&mut nested(30)).unwrap();
    let bytes = onnx_file::Model::from(model.clone()).to_bytes().unwrap();
    assert_eq!(read(bytes).unwrap(), model);
    let error = encoded(&mut nested(31)).unwrap_err();
    assert!(matches!(error, onnx_file::Error::TooDeep { .. }), "{error}");
}

#[test]
fn sizes_are_not_negative() {
    let mut s = Sample::empty();
    let x = s.graph.add_input(Graph::MAIN, f32_type(&[Dim::Known(-1)]));
    s.graph.set_name(x, "x".to_owned());
    let error = encoded(&mut s).unwrap_err().to_string();
    assert_eq!(error, "invalid graph: `x` has a negative size: f32[-1]");
}

/// Returns the names of the results of a contributed operator, of which some are read.
fn contributed(name: &'static str, read: &[usize]) -> (Vec<String>, usize) {
    let mut s = Sample::empty();
    let ty = f32_type(&[Dim::Known(4)]);
    let inputs = [0; 3].map(|_| s.graph.add_input(Graph::MAIN, ty.clone()));
    let op = Op { domain: "com.microsoft", name };
    let types = [0; 4].map(|_| ty.clone());
    let results = s.node(Graph::MAIN, ("", op), &inputs, Attrs::new(), &types);
    let outputs: Vec<ValueId> = read.iter().map(|i| results[*i]).collect();
    s.graph.set_outputs(Graph::MAIN, &outputs);
    let model = encoded(&mut s).unwrap();
    let graph = main_graph(&model);
    (graph.node[0].output.clone(), graph.value_info.len())
}

#[test]
fn unread_results_of_contributed_operators_are_omitted() {
    let norm = "SkipSimplifiedLayerNormalization";
    let name = |i: usize| format!("/{norm}_output_{i}");
    assert_eq!(contributed(norm, &[0]), (vec![name(0)], 0));
    let first_and_last = vec![name(0), String::new(), String::new(), name(3)];
    assert_eq!(contributed(norm, &[0, 3]), (first_and_last, 0));
    // Nothing is known about results of other operators.
    assert_eq!(contributed("Other", &[0]).0.len(), 4);
}

#[test]
fn functions_raise_the_ir_version_and_import_their_domain() {
    let mut s = Sample::empty();
    let x = s.graph.add_input(Graph::MAIN, f32_type(&[]));
    let y = s.op(Graph::MAIN, "Neg", &[x], &f32_type(&[]));
    s.graph.set_outputs(Graph::MAIN, &[y]);
    assign_names(&mut s.graph, &s.origins);
    let model = encode(&s.graph, &EncodeOptions::new(9)).unwrap().proto;
    let domains = |model: &ModelProto| {
        model.opset_import.iter().map(|set| set.domain.clone()).collect::<Vec<_>>()
    };
    assert_eq!((model.ir_version, domains(&model)), (4, vec![String::new()]));
    let body = s.graph.add_block();
    let a = s.graph.add_input(body, f32_type(&[]));
    let b = s.op(body, "Neg", &[a], &f32_type(&[]));
    s.graph.set_outputs(body, &[b]);
    s.graph.functions.push(Function { op: SCALE, body });
    assign_names(&mut s.graph, &s.origins);
    let model = encode(&s.graph, &EncodeOptions::new(9)).unwrap().proto;
    let expected = vec![String::new(), "pkg.test".to_owned()];
    assert_eq!((model.ir_version, domains(&model)), (8, expected));
}

/// Elements in another order are put in order while they are written, if there are many.
#[test]
fn large_tensors_are_reordered_late() {
    for (rows, is_deferred) in [(128, true), (127, false)] {
        let mut s = Sample::empty();
        let value = floats(&[2, rows], (0..2 * rows).map(|i| i as f32));
        let attrs = attrs! { value: value.transposed(&[1, 0]).unwrap() };
        let op = Op { domain: "pkg.test", name: "Filled" };
        let weights = s.graph.add_constant(value.transposed(&[1, 0]).unwrap());
        let y = s.node(Graph::MAIN, ("", op), &[weights], attrs, &[f32_type(&[])]);
        s.graph.set_outputs(Graph::MAIN, &y);
        let model = encoded(&mut s).unwrap();
        let graph = main_graph(&model);
        let mut tensor = graph.node[0].attribute[0].t.as_deref().unwrap().clone();
        for tensor in [&tensor, &graph.initializer[0]] {
            let found = (tensor.deferred.is_some(), tensor.raw_data.is_some());
            assert_eq!(found, (is_deferred, !is_deferred), "{rows}");
        }
        tensor.clear();
        assert_eq!(tensor, TensorProto::default());
    }
}

#[test]
fn bodies_declare_their_own_small_constants() {
    for (count, is_copied) in [(255, true), (256, false)] {
        let mut s = Sample::empty();
        let ty = f32_type(&[Dim::from(count)]);
        let flag = s.graph.add_input(Graph::MAIN, Type::new(DType::Bool, []));
        let x = s.graph.add_input(Graph::MAIN, ty.clone());
        let constant = s.graph.add_constant(floats(&[count], vec![1.0; count]));
        let branch = s.graph.add_block();
        let inner = s.op(branch, "Add", &[x, constant], &ty);
        s.graph.set_outputs(branch, &[inner]);
        let attrs = attrs! { then_branch: branch, else_branch: branch };
        let types = std::slice::from_ref(&ty);
        let chosen = s.node(Graph::MAIN, ("", Op::onnx("If")), &[flag], attrs, types)[0];
        let y = s.op(Graph::MAIN, "Add", &[chosen, constant], &ty);
        s.graph.set_outputs(Graph::MAIN, &[y]);
        onnx_file::separate_constants(&mut s.graph);
        let node = s.graph.nodes_of(branch).next().unwrap();
        assert_eq!(s.graph.node(node).input(1) != Some(constant), is_copied, "{count}");
    }
}

#[test]
fn every_field_of_a_tensor_survives_the_round_trip() {
    let entry = |key: &str| StringStringEntryProto { key: key.to_owned(), value: "v".to_owned() };
    let tensor = TensorProto {
        dims: vec![2, 300],
        data_type: 1,
        segment: Some(Segment { begin: Some(1), end: Some(2) }),
        float_data: vec![0.5],
        int32_data: vec![-1],
        string_data: vec!["text".into()],
        int64_data: vec![1 << 40],
        name: "w".to_owned(),
        raw_data: Some(vec![1, 2, 3].into()),
        deferred: None,
        double_data: vec![0.25],
        uint64_data: vec![u64::MAX],
        doc_string: "documentation".to_owned(),
        external_data: vec![entry("location")],
        data_location: 1,
        metadata_props: vec![entry("key")],
    };
    let bytes = tensor.encode_to_vec();
    assert_eq!(tensor.encoded_len(), bytes.len());
    assert_eq!(TensorProto::decode(bytes.as_slice()).unwrap(), tensor);
    let error = TensorProto::decode(&b"\x0a\x05"[..]).unwrap_err().to_string();
    assert!(error.contains("TensorProto.dims"), "{error}");
}
