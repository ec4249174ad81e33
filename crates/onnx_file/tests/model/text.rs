use onnx_file::proto::{
    AttributeProto, AttributeType, Dimension, DimensionValue, FunctionProto, GraphProto,
    ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, TypeValue, ValueInfoProto,
};
use onnx_file::{elements, print_model};
use prost::bytes::Bytes;

fn value(name: &str) -> ValueInfoProto {
    let dims = [DimensionValue::DimParam("B".to_owned()), DimensionValue::DimValue(2)];
    let dim = dims.map(|dim| Dimension { value: Some(dim), ..Dimension::default() }).to_vec();
    let ty = TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) };
    let ty = TypeProto { value: Some(TypeValue::TensorType(ty)), ..TypeProto::default() };
    ValueInfoProto { name: name.to_owned(), r#type: Some(ty), ..ValueInfoProto::default() }
}

fn tensor(data_type: i32, count: i64) -> TensorProto {
    TensorProto { data_type, dims: vec![count], ..TensorProto::default() }
}

fn node(op: &str, input: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op.to_owned(),
        input: input.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

#[test]
fn models_are_printed_in_the_syntax_of_the_parser() {
    let weights = TensorProto {
        name: "w".to_owned(),
        raw_data: Some(Bytes::from([0.5f32, 1.0].map(f32::to_le_bytes).concat())),
        ..tensor(1, 2)
    };
    let words = [Bytes::from("a"), Bytes::from("b\"")].to_vec();
    let words = TensorProto { name: "words".to_owned(), string_data: words, ..tensor(8, 2) };
    let fill = TensorProto { float_data: vec![2.0], ..tensor(1, 1) };
    let attribute = AttributeProto {
        name: "value".to_owned(),
        r#type: AttributeType::Tensor.into(),
        t: Some(Box::new(fill)),
        ..AttributeProto::default()
    };
    let graph = GraphProto {
        name: "g".to_owned(),
        input: vec![value("x")],
        output: vec![value("y")],
        initializer: vec![weights, words],
        value_info: vec![value("t")],
        node: vec![
            node("Mul", &["x", "w"], "t"),
            NodeProto { attribute: vec![attribute], ..node("Filled", &["t"], "y") },
        ],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: String::new(), version: 23 };
    let function = FunctionProto {
        name: "f".to_owned(),
        domain: "d".to_owned(),
        attribute: vec!["alpha".to_owned()],
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![node("Neg", &["a"], "b")],
        opset_import: vec![opset.clone()],
        ..FunctionProto::default()
    };
    let model = ModelProto {
        ir_version: 10,
        producer_name: "test".to_owned(),
        opset_import: vec![opset],
        graph: Some(graph),
        functions: vec![function],
        ..ModelProto::default()
    };
    let expected = r#"<
  ir_version: 10,
  opset_import: ["": 23],
  producer_name: "test"
>
g (float[B,2] x) => (float[B,2] y)
<
  float[2] w = {0.5, 1.0},
  string[2] words = {"a", "b\""},
  float[B,2] t
>
{
  t = Mul (x, w)
  y = Filled <value: tensor = float[1] {2.0}> (t)
}

<
  domain: "d",
  opset_import: ["": 23]
>
f <alpha> (a) => (b)
{
  b = Neg (a)
}
"#;
    assert_eq!(print_model(&model), expected);
    let mut plain = model;
    plain.functions[0].attribute.clear();
    let graph = plain.graph.as_mut().unwrap();
    graph.value_info.clear();
    assert!(print_model(&plain).contains("\n  string[2] words = {\"a\", \"b\\\"\"}\n>\n"));
    plain.graph.as_mut().unwrap().initializer.clear();
    let text = print_model(&plain);
    assert!(text.contains("(float[B,2] y)\n{\n") && text.contains("f (a) => (b)\n"), "{text}");
}

#[test]
fn elements_are_read_from_the_field_of_their_type() {
    for (tensor, expected) in [
        (TensorProto { float_data: vec![0.5, 1.0], ..tensor(1, 2) }, Some("0.5, 1.0")),
        (TensorProto { double_data: vec![0.1], ..tensor(11, 1) }, Some("0.1")),
        (TensorProto { int32_data: vec![70000, -1], ..tensor(6, 2) }, Some("70000, -1")),
        (TensorProto { int32_data: vec![7, -1], ..tensor(3, 2) }, Some("7, -1")),
        (TensorProto { int64_data: vec![1 << 40], ..tensor(7, 1) }, Some("1099511627776")),
        (
            TensorProto { uint64_data: vec![u64::MAX], ..tensor(13, 1) },
            Some("18446744073709551615"),
        ),
        (TensorProto { uint64_data: vec![7], ..tensor(12, 1) }, Some("7")),
        (TensorProto { string_data: vec![Bytes::from("a")], ..tensor(8, 1) }, Some("\"a\"")),
        (TensorProto { string_data: vec![Bytes::from("a")], ..tensor(8, 2) }, None),
        (TensorProto { float_data: vec![0.5], ..tensor(1, 2) }, None),
        (tensor(1, 2), None),
    ] {
        assert_eq!(elements(&tensor).as_deref(), expected, "{tensor:?}");
    }
    for (count, is_shown) in [(256, true), (257, false)] {
        let raw_data = Some(Bytes::from(vec![1; count]));
        let many = TensorProto { raw_data, ..tensor(2, i64::try_from(count).unwrap()) };
        assert_eq!(elements(&many).is_some(), is_shown, "{count}");
    }
}
