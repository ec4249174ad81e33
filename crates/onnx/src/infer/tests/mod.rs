//! Tables of operators, operands and attributes, with the expected types or errors.

mod contents;
mod control_flow;
mod elementwise;
mod indexing;
mod layers;
mod linear;
mod movement;
mod shape;

use tensor::{DType, Dim, Tensor, Type};

use super::{Call, infer, is_inferred};
use crate::{Attrs, Graph, Op, Result, ValueId};

/// Parses a type such as `f32[2,b + 1]`.
fn ty(text: &str) -> Type {
    let (dtype, shape) = text.strip_suffix(']').and_then(|t| t.split_once('[')).expect(text);
    Type::new(DType::from_short_name(dtype).expect(text), dims(shape))
}

/// Parses sizes separated by commas, which may also occur inside parentheses.
fn dims(text: &str) -> Vec<Dim> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in text.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.map(|part| Dim::parse(part).unwrap()).collect()
}

/// The values of the dimension variables, if they are to be replaced with numbers.
type Env<'a> = Option<&'a dyn Fn(&str) -> Option<i64>>;

fn put(env: Env<'_>, dims: Vec<Dim>) -> Vec<Dim> {
    match env {
        Some(env) => dims.iter().map(|dim| Dim::Known(dim.eval(env).unwrap())).collect(),
        None => dims,
    }
}

/// Adds an operand. `f32[2,b]` is a value, `{1, b}` a vector of 64-bit integers with known
/// elements, `b + 1` such a scalar, `f32{0.5, 2}` a constant vector of another type, `f32(2)` a
/// constant scalar of another type, and `-` an omitted operand.
fn operand(graph: &mut Graph, text: &str, env: Env<'_>) -> Option<ValueId> {
    if text == "-" {
        return None;
    }
    if let Some((dtype, list)) = text.strip_suffix('}').and_then(|t| t.split_once('{')) {
        if let Some(dtype) = DType::from_short_name(dtype) {
            let numbers: Vec<f64> = list.split(',').map(|n| n.trim().parse().unwrap()).collect();
            return Some(graph.add_constant(constant(dtype, &[numbers.len()], &numbers)));
        }
        let elements = put(env, dims(list));
        return Some(known(graph, Type::new(DType::I64, [elements.len().into()]), elements));
    }
    if let Some((dtype, number)) = text.strip_suffix(')').and_then(|t| t.split_once('('))
        && let Some(dtype) = DType::from_short_name(dtype)
    {
        return Some(graph.add_constant(constant(dtype, &[], &[number.parse().unwrap()])));
    }
    if text.ends_with(']') {
        let Type { dtype, shape } = ty(text);
        return Some(graph.add_input(Graph::MAIN, Type::new(dtype, put(env, shape))));
    }
    Some(known(graph, Type::new(DType::I64, []), put(env, dims(text))))
}

fn constant(dtype: DType, shape: &[usize], numbers: &[f64]) -> Tensor {
    let scalars = numbers.iter().map(|n| Tensor::scalar(dtype, *n).unwrap());
    let bytes: Vec<u8> = scalars.flat_map(|t| t.bytes().unwrap().to_vec()).collect();
    Tensor::new(dtype, shape, std::sync::Arc::new(bytes)).unwrap()
}

/// Adds a value with known elements. It is a constant if they are numbers.
fn known(graph: &mut Graph, ty: Type, elements: Vec<Dim>) -> ValueId {
    let numbers = Dim::all_known(&elements);
    match (numbers, ty.rank()) {
        (Some(numbers), 1) => graph.add_constant(Tensor::i64s(&numbers)),
        (Some(numbers), _) => {
            graph.add_constant(Tensor::int_scalar(DType::I64, numbers[0].into()).unwrap())
        }
        (None, _) => {
            let value = graph.add_input(Graph::MAIN, ty);
            graph.value_mut(value).content = Some(elements.into_boxed_slice());
            value
        }
    }
}

fn infer_types(
    (graph, env): (&mut Graph, Env<'_>),
    op: &'static str,
    operands: &[&str],
    attrs: &Attrs,
    count: usize,
) -> Result<Vec<Type>> {
    let inputs: Vec<_> = operands.iter().map(|text| operand(graph, text, env)).collect();
    infer(&Call { graph, op: &Op::onnx(op), inputs: &inputs, attrs, count })
}

/// Returns the types of `count` results separated by `; `, or the error.
fn outcome(
    graph: &mut Graph,
    op: &'static str,
    operands: &[&str],
    attrs: &Attrs,
    count: usize,
) -> String {
    match infer_types((graph, None), op, operands, attrs, count) {
        Ok(types) => types.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Err(error) => error.to_string(),
    }
}

/// Checks one row. The number of requested results is that of the expected ones. With numbers in
/// place of the variables, inference must give the same numbers, or an error if they do not fit the
/// operator.
#[track_caller]
fn check(op: &'static str, operands: &[&str], attrs: &Attrs, expected: &str) {
    let is_error = expected.contains(": ");
    let count = if is_error { 1 } else { expected.split("; ").count() };
    let graph = &mut Graph::new("test");
    assert_eq!(outcome(graph, op, operands, attrs, count), expected, "{op} {operands:?}");
    if is_error {
        return;
    }
    for seed in 0..11 {
        // Every variable takes every value from 1 to 11, with different increments.
        let env = |name: &str| Some(1 + seed * i64::from(name.as_bytes()[0] % 5 + 1) % 11);
        let numbers = infer_types((graph, Some(&env)), op, operands, attrs, count);
        let Ok(numbers) = numbers else { continue };
        for (text, number) in expected.split("; ").zip(numbers) {
            let shape = put(Some(&env), ty(text).shape);
            assert_eq!(number.shape, shape, "{op} {operands:?} with {seed}: {text}");
        }
    }
}

/// Checks rows of `"Op" operand, ... {attribute: value, ...} => "types"`.
macro_rules! table {
    ($($op:literal $($operand:literal),* {$($attrs:tt)*} => $expected:literal;)*) => {
        $(crate::infer::tests::check($op, &[$($operand),*], &$crate::attrs! {$($attrs)*}, $expected);)*
    };
}
use table;

#[test]
fn operators_without_inference_are_known() {
    assert!(is_inferred(&Op::onnx("Add")) && !is_inferred(&Op::onnx("DeformConv")));
    assert!(!is_inferred(&Op { domain: "com.example", name: "Add" }));
}

#[test]
fn counts_and_names_are_checked() {
    table! {
        "Add" "f32[2]" {} => "Add: there are 1 operands, not 2";
        "Add" "f32[2]", "-" {} => "Add: input 1 is missing";
        "Clip" {} => "Clip: there are 0 operands, not 1 to 3";
        "Max" {} => "Max: there are 0 operands, not 1 or more";
        "Gizmo" "f32[2]" {} => "Gizmo: no type inference for this operator";
        "Softmax" "f32[2]" { axis: "x" } => "Softmax: attribute `axis` must be an integer";
        "Transpose" "f32[2]" { perm: 0 } => "Transpose: attribute `perm` must be a list of integers";
        "Gelu" "f32[2]" { approximate: 1 } => "Gelu: attribute `approximate` must be a string";
        "Cast" "f32[2]" { to: 99 } => "Cast: `to` is 99, which is not an element type";
    }
    let graph = &mut Graph::new("test");
    let two = outcome(graph, "Abs", &["f32[2]"], &Attrs::new(), 2);
    assert_eq!(two, "Abs: there are 2 results, not 1");
    let op = Op { domain: "com.example", name: "Abs" };
    let call = Call { graph, op: &op, inputs: &[], attrs: &Attrs::new(), count: 1 };
    let error = infer(&call).unwrap_err().to_string();
    assert_eq!(error, "Abs: no type inference for operators of domain `com.example`");
}
