use provenance::{Origins, Stage};
use tensor::{DType, Tensor};

use super::{operand, ty};
use crate::{Attrs, Builder, Graph, Source, attrs};

fn builder<'a>(graph: &'a mut Graph, origins: &'a mut Origins) -> Builder<'a> {
    Builder {
        graph,
        origins,
        name: "test",
        stage: Stage::Lower,
        site: None,
        source: Source::Equation { call: None, scope: Origins::ROOT },
        block: Graph::MAIN,
        before: None,
    }
}

/// Returns the elements of the result of one node, if they are known.
fn content(op: &'static str, operands: &[&str], attrs: Attrs) -> Option<String> {
    let (graph, origins) = (&mut Graph::new("test"), &mut Origins::default());
    let inputs: Vec<_> = operands.iter().map(|text| operand(graph, text, None)).collect();
    let value = builder(graph, origins).op_optional(op, &inputs, attrs).unwrap();
    graph.content(value).map(|dims| format!("{dims:?}"))
}

macro_rules! table {
    ($($op:literal $($operand:literal),* {$($attrs:tt)*} => $expected:expr;)*) => {
        $(assert_eq!(
            content($op, &[$($operand),*], attrs! {$($attrs)*}).as_deref(), $expected, $op
        );)*
    };
}

#[test]
fn elements_are_known() {
    table! {
        "Shape" "f32[b,3]" {} => Some("[b, 3]");
        "Shape" "f32[b,3,t]" { start: -2 } => Some("[3, t]");
        "Size" "f32[b,3]" {} => Some("[3*b]");
        "Gather" "{b, 3, t}", "{-1, 0}" {} => Some("[t, b]");
        "Gather" "{b, 3, t}", "1" {} => Some("[3]");
        "Slice" "{b, 3, t}", "{1}", "{9223372036854775807}" {} => Some("[3, t]");
        "Slice" "{b, 3, t}", "{-1}", "{-9}", "{0}", "{-2}" {} => Some("[t, b]");
        "Concat" "{b}", "{3, t}" { axis: 0 } => Some("[b, 3, t]");
        "Concat" "{b}", "i64[1]" { axis: 0 } => None;
        "Unsqueeze" "b", "{0}" {} => Some("[b]");
        "Squeeze" "{b}", "{0}" {} => Some("[b]");
        "Reshape" "{b}", "{}" {} => Some("[b]");
        "Unsqueeze" "{b}", "{0}" {} => None;
        "Cast" "i32{3, 4}" { to: DType::I64 } => Some("[3, 4]");
        "Cast" "{3, 4}" { to: DType::I32 } => None;
        "ReduceProd" "{b, 3, t}" { keepdims: false } => Some("[3*b*t]");
        "Identity" "{b}" {} => Some("[b]");
        "Constant" { value: Tensor::i64s(&[3, 4]) } => Some("[3, 4]");
        "Constant" { value_int: 3 } => Some("[3]");
        "ConstantOfShape" "{2}" { value: Tensor::i64s(&[1]) } => Some("[1, 1]");
        "ConstantOfShape" "{}" { value: Tensor::i64s(&[1]) } => Some("[1]");
        "Expand" "b", "{2}" {} => Some("[b, b]");
        "Expand" "{b, 3}", "{1}" {} => Some("[b, 3]");
        "Range" "4", "0", "-2" {} => Some("[4, 2]");
        "Range" "0", "4", "2" {} => Some("[0, 2]");
        "Range" "0", "5", "2" {} => Some("[0, 2, 4]");
        "Expand" "{b, 3}", "{2}" {} => Some("[b, 3]");
        "Slice" "{b, 3, t}", "{0}", "{2}" {} => Some("[b, 3]");
        "Range" "0", "b", "1" {} => None;
        "Shape" "f32[]" {} => Some("[]");
    }
}

#[test]
fn arithmetic_is_exact_or_unknown() {
    table! {
        "Add" "{b, 3}", "2" {} => Some("[b + 2, 5]");
        "Sub" "{b, 3}", "{2, t}" {} => Some("[b - 2, -t + 3]");
        "Mul" "b", "2199023255552" {} => None;
        "Mul" "2199023255552", "b" {} => None;
        "Mul" "b", "t" {} => Some("[b*t]");
        "Neg" "{b}" {} => Some("[-b]");
        "Max" "b", "1" {} => Some("[b]");
        "Min" "b", "4" {} => Some("[min(b, 4)]");
        "Div" "b", "2" {} => Some("[floordiv(b, 2)]");
        "Div" "-7", "2" {} => Some("[-3]");
        "Div" "b - 4", "2" {} => None;
        "Div" "b", "t - 1" {} => None;
        "Div" "4", "0" {} => None;
        "Mod" "b", "2" {} => Some("[mod(b, 2)]");
        "Mod" "-7", "2" {} => Some("[1]");
        "Mod" "-7", "2" { fmod: true } => None;
        "Add" "9223372036854775807", "1" {} => None;
        "Add" "9223372036854775807", "b" {} => None;
        "Add" "i64[2]", "2" {} => None;
        "Add" "i32{2}", "i32{3}" {} => None;
    }
}

#[test]
fn long_vectors_are_data() {
    let (graph, origins) = (&mut Graph::new("test"), &mut Origins::default());
    let long = graph.add_constant(Tensor::i64s(&[1; 65]));
    let sum = builder(graph, origins).op("Add", &[long, long], Attrs::new()).unwrap();
    assert_eq!(graph.content(sum), None);
}

#[test]
fn reshape_to_a_computed_shape_has_a_type() {
    let (graph, origins) = (&mut Graph::new("test"), &mut Origins::default());
    let x = graph.add_input(Graph::MAIN, ty("f32[b,t,4,8]"));
    let b = &mut builder(graph, origins);
    let shape = b.op("Shape", &[x], attrs! { end: 2 }).unwrap();
    let minus_one = b.i64s(&[-1]);
    let shape = b.op("Concat", &[shape, minus_one], attrs! { axis: 0 }).unwrap();
    let y = b.op("Reshape", &[x, shape], Attrs::new()).unwrap();
    assert_eq!(b.ty(y).to_string(), "f32[b,t,32]");
}
