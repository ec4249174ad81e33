//! Graphs of one node, and an interpreter of scalar graphs to compare equivalents with the real
//! functions.

use std::panic::Location;

use onnx::{Attr, Attrs, Graph, NodeId, Op, ValueId};
use provenance::{Emitter, OriginId, Origins, Stage};
use rustc_hash::FxHashMap;
use tensor::{DType, Dim, Type};

use super::{Error, Target, legalize};

pub(super) fn origin(origins: &mut Origins) -> OriginId {
    let emitter = Emitter { name: "test", stage: Stage::Lower, at: Location::caller() };
    origins.origin(None, Origins::ROOT, emitter)
}

/// A graph of one node; types are element types and shapes.
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

/// Legalises a graph of one node and says what became of it: its operators in order, with the
/// element types of their results.
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

/// The operators of the main graph in order, each with the element types of its results.
pub(super) fn show(graph: &Graph) -> String {
    let text = |id: NodeId| {
        let node = graph.node(id);
        let types = node.outputs.iter().map(|v| graph.ty(*v).dtype.to_string());
        format!("{}:{}", node.op.name, types.collect::<Vec<_>>().join("/"))
    };
    graph.nodes_of(Graph::MAIN).map(text).collect::<Vec<_>>().join(" ")
}

/// Asserts that what `op` is replaced by in double precision computes `expected`.
#[track_caller]
pub(super) fn assert_f64(op: &'static str, xs: &[f64], expected: impl Fn(f64) -> f64) {
    for opset in [18, 22] {
        if onnx::schema::find(&Op::onnx(op), opset).is_none() {
            continue;
        }
        let mut origins = Origins::default();
        let scalar: (DType, &[i64]) = (DType::F64, &[]);
        let mut graph = single(&mut origins, op, &[scalar], Attrs::new(), &[scalar]);
        legalize(&mut graph, &mut origins, opset, Target::OnnxRuntime).unwrap();
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

/// The result of a graph of scalars whose only input is `x`.
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
    graph.constant(value).unwrap().splat().unwrap()
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
