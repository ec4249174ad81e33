//! Graphs of one node, and an interpreter of scalar graphs that compares equivalents with the
//! original functions.

use std::panic::Location;

use onnx::{Attr, Attrs, Graph, NodeId, Op, ValueId};
use provenance::{Emitter, OriginId, Origins, Stage};
use rustc_hash::FxHashMap;
use tensor::{DType, Dim, Type};

use super::{Error, avoid_bugs, legalize};
use crate::testing::graph;
use crate::{Forms, Target};

pub(super) fn origin(origins: &mut Origins) -> OriginId {
    let emitter = Emitter { name: "test", stage: Stage::Lower, at: Location::caller().into() };
    origins.origin(None, Origins::ROOT, emitter)
}

/// Returns a graph of one node. The types are element types and shapes.
pub(super) fn single(
    origins: &mut Origins,
    op: &'static str,
    inputs: &[(DType, &[i64])],
    attrs: Attrs,
    outputs: &[(DType, &[i64])],
) -> Graph {
    let ty = |(dtype, shape): &(DType, &[i64])| {
        Type::new(*dtype, shape.iter().map(|d| Dim::Known(*d)).collect::<Vec<_>>())
    };
    let mut graph = Graph::new("test");
    let inputs: Vec<_> = inputs.iter().map(|t| Some(graph.add_input(Graph::MAIN, ty(t)))).collect();
    let node = (Op::onnx(op), inputs, attrs);
    let types = outputs.iter().map(ty).collect();
    let node = graph.add_node(Graph::MAIN, None, node, types, origin(origins));
    let outputs = graph.node(node).outputs.clone();
    graph.set_outputs(Graph::MAIN, &outputs);
    graph
}

/// Legalises a graph of one node. Returns the resulting operators in order, with the element types
/// of their results.
pub(super) fn outcome(
    op: &'static str,
    inputs: &[DType],
    attrs: Attrs,
    outputs: &[DType],
    (opset, target): (i64, Target),
) -> Result<String, Error> {
    let shape: &[i64] = &[2, 2];
    let mut origins = Origins::default();
    let inputs: Vec<_> = inputs.iter().map(|d| (*d, shape)).collect();
    let outputs: Vec<_> = outputs.iter().map(|d| (*d, shape)).collect();
    let mut graph = single(&mut origins, op, &inputs, attrs, &outputs);
    legalize(&mut graph, &mut origins, opset, target)?;
    onnx::verify(&graph, Some(opset)).unwrap();
    let before = graph.all_nodes().len();
    legalize(&mut graph, &mut origins, opset, target)?;
    assert_eq!(graph.all_nodes().len(), before, "a second time changes nothing");
    let result = graph.block(Graph::MAIN).outputs();
    assert!(result.iter().zip(&outputs).all(|(v, ty)| graph.ty(*v).dtype == ty.0));
    Ok(show(&graph))
}

/// Legalises a graph that is given as text. Returns the resulting operators.
pub(crate) fn legalized(text: &str, target: Target) -> String {
    show(&legal(text, target))
}

/// Does the same, but returns the graph as text.
pub(crate) fn legalized_text(text: &str, target: Target) -> String {
    onnx::text::print(&legal(text, target))
}

fn legal(text: &str, target: Target) -> Graph {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    legalize(&mut graph, &mut origins, 23, target).unwrap();
    avoid_bugs(&mut graph, &mut origins, 23, target, &Forms::auto(23)).unwrap();
    onnx::verify(&graph, Some(23)).unwrap();
    graph
}

/// Returns the operators of the main graph in order, each with the element types of its results.
pub(super) fn show(graph: &Graph) -> String {
    let text = |id: NodeId| {
        let node = graph.node(id);
        let types = node.outputs.iter().map(|v| graph.ty(*v).dtype.to_string());
        format!("{}:{}", node.op.name, types.collect::<Vec<_>>().join("/"))
    };
    graph.nodes_of(Graph::MAIN).map(text).collect::<Vec<_>>().join(" ")
}

/// Asserts that the replacement of `op` in double precision computes `expected`.
#[track_caller]
pub(super) fn assert_f64(op: &'static str, xs: &[f64], expected: impl Fn(f64) -> f64) {
    for opset in [18, 22] {
        if onnx::schema::find(&Op::onnx(op), opset).is_none() {
            continue;
        }
        let mut origins = Origins::default();
        let scalar: (DType, &[i64]) = (DType::F64, &[]);
        let mut graph = single(&mut origins, op, &[scalar], Attrs::new(), &[scalar]);
        legalize(&mut graph, &mut origins, opset, Target::default()).unwrap();
        onnx::verify(&graph, Some(opset)).unwrap();
        assert!(!show(&graph).contains(&format!("{op}:f64")), "{op} is still there");
        for &x in xs {
            let (got, want) = (run(&graph, x), expected(x));
            let close = (got - want).abs() <= 4e-15 * want.abs() + f64::MIN_POSITIVE;
            let same = got == want || (got.is_nan() && want.is_nan());
            assert!(same || close, "{op}({x:e}) is {want:e}, not {got:e}");
        }
    }
}

/// Legalises a graph of scalars that is given as text, and returns its result for `x`.
pub(super) fn value_of(text: &str, x: f64) -> f64 {
    run(&legal(text, Target::default()), x)
}

/// Returns the result of a graph of scalars whose only input is `x`.
fn run(graph: &Graph, x: f64) -> f64 {
    let block = graph.block(Graph::MAIN);
    let mut known = FxHashMap::from_iter([(block.inputs[0], x)]);
    for id in graph.nodes_of(Graph::MAIN) {
        let node = graph.node(id);
        let read = |v: &ValueId| known.get(v).copied().unwrap_or_else(|| constant(graph, *v));
        let operands: Vec<f64> = node.inputs.iter().flatten().map(read).collect();
        let value = compute(node.op.name, &node.attrs, &operands);
        let output = node.outputs[0];
        #[expect(clippy::cast_possible_truncation, reason = "single precision rounds")]
        let rounded = match graph.ty(output).dtype {
            DType::F32 => f64::from(value as f32),
            _ => value,
        };
        known.insert(output, rounded);
    }
    known[&block.outputs()[0]]
}

fn constant(graph: &Graph, value: ValueId) -> f64 {
    graph.tensor(value).unwrap().splat().unwrap()
}

fn compute(op: &str, attrs: &[(&'static str, Attr)], operands: &[f64]) -> f64 {
    let truth = |yes: bool| if yes { 1.0 } else { 0.0 };
    let x = operands[0];
    let y = operands.get(1).copied().unwrap_or(f64::NAN);
    assert!(op == "Cast" || attrs.is_empty(), "{op} has attributes");
    match op {
        "Abs" => x.abs(),
        "Acos" => x.acos(),
        "Add" => x + y,
        "Asin" => x.asin(),
        "Atan" => x.atan(),
        "Cast" => x,
        "Clip" => {
            if x.is_nan() {
                x
            } else {
                x.clamp(y, operands[2])
            }
        }
        "Cos" => x.cos(),
        "Div" => x / y,
        "Equal" => truth(x == y),
        "Exp" => x.exp(),
        "Greater" => truth(x > y),
        "GreaterOrEqual" => truth(x >= y),
        "Less" => truth(x < y),
        "Log" => x.ln(),
        "Max" => x.max(y),
        "Min" => x.min(y),
        "Mul" => x * y,
        "Neg" => -x,
        "Sign" if x == 0.0 => 0.0,
        "Sign" => x.signum(),
        "Sin" => x.sin(),
        "Sqrt" => x.sqrt(),
        "Sub" => x - y,
        "Sum" => operands.iter().sum(),
        "Tanh" => x.tanh(),
        "Where" if x != 0.0 => y,
        "Where" => operands[2],
        _ => panic!("no {op} in this interpreter"),
    }
}

/// Asserts that the replacement of `op` on vectors of integers computes `expected`.
#[track_caller]
pub(super) fn assert_integers(
    op: &'static str,
    dtype: DType,
    operands: &[&[i128]],
    attrs: Attrs,
    expected: &[i128],
) {
    let mut origins = Origins::default();
    let shape = |values: &[i128]| vec![i64::try_from(values.len()).unwrap()];
    // Bounds of `Clip` are scalars.
    let shapes: Vec<Vec<i64>> = (0..operands.len())
        .map(|i| if op == "Clip" && i > 0 { Vec::new() } else { shape(operands[i]) })
        .collect();
    let inputs: Vec<(DType, &[i64])> = shapes.iter().map(|s| (dtype, s.as_slice())).collect();
    let result = shape(expected);
    let mut graph = single(&mut origins, op, &inputs, attrs, &[(dtype, result.as_slice())]);
    legalize(&mut graph, &mut origins, 21, Target::default()).unwrap();
    onnx::verify(&graph, Some(21)).unwrap();
    let operands: Vec<_> = operands.iter().map(|values| values.to_vec()).collect();
    assert_eq!(run_integers(&graph, &operands), expected, "{op} on {dtype}: {}", show(&graph));
}

/// Evaluates a graph on integers with a single axis. Values in double precision are also
/// represented as integers.
pub(super) fn run_integers(graph: &Graph, operands: &[Vec<i128>]) -> Vec<i128> {
    let block = graph.block(Graph::MAIN);
    let mut known: FxHashMap<ValueId, Vec<i128>> =
        block.inputs.iter().copied().zip(operands.iter().cloned()).collect();
    for id in graph.nodes_of(Graph::MAIN) {
        let node = graph.node(id);
        let read = |v: &ValueId| {
            known.get(v).cloned().unwrap_or_else(|| graph.tensor(*v).unwrap().to_ints().unwrap())
        };
        let operands: Vec<_> = node.inputs.iter().flatten().map(read).collect();
        let output = node.outputs[0];
        let results = compute_integers(node.op.name, &operands);
        let wrap = |v: i128| match graph.ty(output).dtype {
            DType::Bool => i128::from(v != 0),
            DType::F64 => v,
            dtype => {
                let (low, high) = dtype.int_range().unwrap();
                (v - low).rem_euclid(high - low + 1) + low
            }
        };
        if graph.ty(output).dtype == DType::F64 {
            assert!(results.iter().all(|v| v.abs() <= 1 << 53), "not exact in double precision");
        }
        known.insert(output, results.into_iter().map(wrap).collect());
    }
    known[&block.outputs()[0]].clone()
}

fn compute_integers(op: &str, operands: &[Vec<i128>]) -> Vec<i128> {
    let x = &operands[0];
    let at = |operand: usize, i: usize| *operands[operand].get(i).unwrap_or(&operands[operand][0]);
    let len = operands.iter().map(Vec::len).max().unwrap();
    let each = |f: &dyn Fn(i128, i128) -> i128| (0..len).map(|i| f(at(0, i), at(1, i))).collect();
    match op {
        "Abs" => x.iter().map(|v| v.abs()).collect(),
        "Add" => each(&|a, b| a + b),
        "BitShift" => each(&|a, b| a >> b),
        "BitwiseAnd" => each(&|a, b| a & b),
        "BitwiseXor" => each(&|a, b| a ^ b),
        "Cast" | "Identity" | "Unsqueeze" => x.clone(),
        "Concat" => operands.concat(),
        "ConstantOfShape" => vec![1; usize::try_from(x[0]).unwrap()],
        "Div" => each(&|a, b| a / b),
        "Equal" => each(&|a, b| i128::from(a == b)),
        "Greater" => each(&|a, b| i128::from(a > b)),
        "Less" => each(&|a, b| i128::from(a < b)),
        "Mul" => each(&|a, b| a * b),
        "MatMul" => vec![x.iter().zip(&operands[1]).map(|(a, b)| a * b).sum()],
        "ReduceMax" => vec![*x.iter().max().unwrap()],
        "ReduceMin" => vec![*x.iter().min().unwrap()],
        "ReduceSum" => vec![x.iter().sum()],
        "Slice" => {
            let bound = |operand: usize| usize::try_from(operands[operand][0]).unwrap();
            x[bound(1)..bound(2)].to_vec()
        }
        "Sub" => each(&|a, b| a - b),
        "Where" => (0..len).map(|i| if at(0, i) != 0 { at(1, i) } else { at(2, i) }).collect(),
        _ => panic!("no {op} on integers in this interpreter"),
    }
}

/// Legalises a graph that is given as text for any runtime at an opset. Returns its text.
pub(super) fn at_opset(text: &str, opset: i64) -> String {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    legalize(&mut graph, &mut origins, opset, Target::any()).unwrap();
    onnx::verify(&graph, None).unwrap();
    onnx::text::print(&graph)
}
