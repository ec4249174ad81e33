use std::panic::Location;

use provenance::{Emitter, OriginId, Origins, Stage};
use tensor::{DType, Dim, Tensor, Type};

use super::*;
use crate::{Attrs, BlockId, Op, assign_names, attrs};

fn origins() -> (Origins, OriginId) {
    let mut origins = Origins::default();
    let emitter = Emitter { name: "test", stage: Stage::Lower, at: Location::caller().into() };
    let origin = origins.origin(None, Origins::ROOT, emitter);
    (origins, origin)
}

fn origin() -> OriginId {
    origins().1
}

fn ty(dtype: DType) -> Type {
    Type::new(dtype, [Dim::Known(2)])
}

fn scalar(dtype: DType) -> Type {
    Type::new(dtype, [])
}

/// Adds a node with results of the given types at the end of `block`.
fn add(
    graph: &mut Graph,
    block: BlockId,
    op: &'static str,
    inputs: &[ValueId],
    attrs: Attrs,
    outputs: &[Type],
) -> NodeId {
    let inputs = inputs.iter().map(|v| Some(*v)).collect();
    graph.add_node(block, None, (Op::onnx(op), inputs, attrs), outputs.to_vec(), origin())
}

/// Returns a graph of one node, with inputs and outputs of the given element types.
fn single(op: &'static str, inputs: &[DType], attrs: Attrs, outputs: &[DType]) -> Graph {
    let mut graph = Graph::new("test");
    let inputs: Vec<_> = inputs.iter().map(|d| graph.add_input(Graph::MAIN, ty(*d))).collect();
    let outputs: Vec<_> = outputs.iter().map(|d| ty(*d)).collect();
    let node = add(&mut graph, Graph::MAIN, op, &inputs, attrs, &outputs);
    let outputs = graph.node(node).outputs.clone();
    graph.set_outputs(Graph::MAIN, &outputs);
    graph
}

fn error(graph: &Graph, opset: Option<i64>) -> String {
    verify(graph, opset).unwrap_err().to_string()
}

const F: DType = DType::F32;

#[test]
fn a_good_graph_passes() {
    let graph = single("Add", &[F, F], attrs! {}, &[F]);
    verify(&graph, None).unwrap();
    for opset in schema::OLDEST..=schema::NEWEST {
        verify(&graph, Some(opset)).unwrap();
    }
}

#[test]
fn operands_and_results_are_counted() {
    let say = |graph: &Graph| error(graph, Some(20));
    assert_eq!(say(&single("Add", &[F], attrs! {}, &[F])), "Add #0: operand `B` is missing");
    let three = single("Add", &[F, F, F], attrs! {}, &[F]);
    assert_eq!(say(&three), "Add #0: it has 3 operands, but takes at most 2");
    let results = single("Add", &[F, F], attrs! {}, &[F, F]);
    assert_eq!(say(&results), "Add #0: it has 2 results, but takes at most 1");
    let none = single("Concat", &[], attrs! { axis: 0 }, &[F]);
    assert_eq!(say(&none), "Concat #0: `inputs` takes at least 1 operands");
}

#[test]
fn attributes_are_checked() {
    let say = |attrs| error(&single("Concat", &[F, F], attrs, &[F]), Some(20));
    assert_eq!(say(attrs! {}), "Concat #0: attribute `axis` is missing");
    let wrong = attrs! { axis: vec![0] };
    assert_eq!(say(wrong), "Concat #0: attribute `axis` is Ints, but must be Int");
    let unknown = attrs! { axis: 0, axes: 1 };
    assert_eq!(say(unknown), "Concat #0: unknown attribute `axes`");
}

#[test]
fn types_are_checked_when_the_opset_is_known() {
    let mixed = single("Add", &[F, DType::F64], attrs! {}, &[F]);
    let reason = "Add #0: `B` is f64, but its type T is already f32";
    assert_eq!(error(&mixed, None), reason);
    let int = single("Sin", &[DType::I32], attrs! {}, &[DType::I32]);
    verify(&int, None).unwrap();
    assert_eq!(error(&int, Some(20)), "Sin #0: T cannot be i32; it can be f16, f32, f64");
    let bf16 = single("Sin", &[DType::BF16], attrs! {}, &[DType::BF16]);
    assert!(verify(&bf16, Some(21)).is_err());
    verify(&bf16, Some(22)).unwrap();
}

#[test]
fn operators_must_exist_at_the_opset() {
    let gelu = single("Gelu", &[F], attrs! {}, &[F]);
    assert_eq!(error(&gelu, Some(19)), "Gelu #0: ONNX has no such operator at opset 19");
    let unknown = single("NoSuchOp", &[F], attrs! {}, &[F]);
    assert_eq!(error(&unknown, None), "NoSuchOp #0: ONNX has no such operator");
    let reason = "opset 8 is not supported; choose one from 9 to 28";
    assert_eq!(error(&gelu, Some(8)), reason);
}

#[test]
fn errors_use_names_if_present() {
    let mut graph = single("Add", &[F], attrs! {}, &[F]);
    let node = graph.all_nodes()[0];
    graph.node_mut(node).name = "/mlp/Add".to_owned();
    assert_eq!(error(&graph, None), "Add `/mlp/Add`: operand `B` is missing");
}

#[test]
fn values_are_defined_before_they_are_read() {
    let mut graph = single("Exp", &[F], attrs! {}, &[F]);
    let first = graph.all_nodes()[0];
    let second = add(&mut graph, Graph::MAIN, "Exp", &[], attrs! {}, &[ty(F)]);
    let late = graph.node(second).outputs[0];
    graph.set_input(first, 0, Some(late));
    assert_eq!(
        error(&graph, None),
        "invalid graph: Exp #0 reads %2 (f32[2]), which is not defined earlier in this block or \
         an enclosing one"
    );
}

#[test]
fn removed_values_are_not_read() {
    let mut graph = single("Exp", &[F], attrs! {}, &[F]);
    let node = graph.all_nodes()[0];
    graph.remove_node(node);
    assert_eq!(
        error(&graph, None),
        "invalid graph: the main graph returns %1 (f32[2]), which was removed"
    );
}

/// Returns a graph with an `If` whose branches return the results of `branch`.
fn conditional(branch: impl Fn(&mut Graph, BlockId, ValueId) -> ValueId) -> Graph {
    let mut graph = Graph::new("test");
    let condition = graph.add_input(Graph::MAIN, scalar(DType::Bool));
    let x = graph.add_input(Graph::MAIN, ty(F));
    let [then, other] = [graph.add_block(), graph.add_block()];
    for block in [then, other] {
        let result = branch(&mut graph, block, x);
        graph.set_outputs(block, &[result]);
    }
    let attrs = attrs! { then_branch: then, else_branch: other };
    let node = add(&mut graph, Graph::MAIN, "If", &[condition], attrs, &[ty(F)]);
    let outputs = graph.node(node).outputs.clone();
    graph.set_outputs(Graph::MAIN, &outputs);
    graph
}

#[test]
fn inner_blocks_see_outer_values() {
    let exp = |graph: &mut Graph, block, x| {
        let node = add(graph, block, "Exp", &[x], attrs! {}, &[ty(F)]);
        graph.node(node).outputs[0]
    };
    verify(&conditional(exp), Some(18)).unwrap();
}

#[test]
fn outer_blocks_do_not_see_inner_values() {
    let mut graph = conditional(|graph, block, x| {
        let node = add(graph, block, "Exp", &[x], attrs! {}, &[ty(F)]);
        graph.node(node).outputs[0]
    });
    let inner = graph.live_blocks()[1];
    let inner = graph.block(inner).outputs()[0];
    graph.set_outputs(Graph::MAIN, &[inner]);
    let message = error(&graph, None);
    assert!(message.contains("the main graph returns %"), "{message}");
}

#[test]
fn branches_must_match_the_results_of_the_node() {
    let cast = |graph: &mut Graph, block, x| {
        let attrs = attrs! { to: DType::F64 };
        let node = add(graph, block, "Cast", &[x], attrs, &[ty(DType::F64)]);
        graph.node(node).outputs[0]
    };
    let message = error(&conditional(cast), None);
    assert_eq!(message, "If #2: `then_branch`: result 0 is f32 outside, but f64 inside");
    let mut graph = conditional(cast);
    let block = graph.live_blocks()[1];
    graph.add_input(block, ty(F));
    assert_eq!(error(&graph, None), "If #2: `then_branch` must have no inputs, but has 1");
}

/// Returns a counting loop with one state of type `state` and a body that takes and returns
/// `inner`.
fn counting(state: DType, inner: DType, iteration: &Type) -> Graph {
    let mut graph = Graph::new("test");
    let count = graph.intern_constant(Tensor::i64s(&[3]));
    let yes = graph.intern_constant(Tensor::bools(&[], &[true]));
    let x = graph.add_input(Graph::MAIN, ty(state));
    let body = graph.add_block();
    graph.add_input(body, iteration.clone());
    let condition = graph.add_input(body, scalar(DType::Bool));
    let y = graph.add_input(body, ty(inner));
    graph.set_outputs(body, &[condition, y]);
    let attrs = attrs! { body: body };
    let node = add(&mut graph, Graph::MAIN, "Loop", &[count, yes, x], attrs, &[ty(state)]);
    let outputs = graph.node(node).outputs.clone();
    graph.set_outputs(Graph::MAIN, &outputs);
    graph
}

#[test]
fn the_state_of_a_loop_keeps_its_type() {
    verify(&counting(F, F, &scalar(DType::I64)), Some(18)).unwrap();
    let message = error(&counting(F, DType::I8, &scalar(DType::I64)), None);
    assert_eq!(message, "Loop #0: state 0 is f32 outside, but i8 inside");
    let message = error(&counting(F, F, &scalar(F)), None);
    assert_eq!(message, "Loop #0: the iteration number must be i64[], but is f32[]");
}

#[test]
fn scans_take_states_before_slices() {
    let scan = |scanned: i64| {
        let mut graph = Graph::new("test");
        let state = graph.add_input(Graph::MAIN, ty(F));
        let xs = graph.add_input(Graph::MAIN, ty(DType::I32));
        let body = graph.add_block();
        let state_in = graph.add_input(body, ty(F));
        let x = graph.add_input(body, scalar(DType::I32));
        graph.set_outputs(body, &[state_in, x]);
        let attrs = attrs! { body: body, num_scan_inputs: scanned };
        let types = [ty(F), ty(DType::I32)];
        add(&mut graph, Graph::MAIN, "Scan", &[state, xs], attrs, &types);
        graph
    };
    verify(&scan(1), Some(20)).unwrap();
    assert_eq!(error(&scan(3), None), "Scan #0: 3 of 2 operands cannot be scanned");
}

fn function(body: impl Fn(&mut Graph, BlockId, ValueId) -> ValueId) -> Graph {
    let mut graph = single("Exp", &[F], attrs! {}, &[F]);
    let outer = graph.block(Graph::MAIN).inputs[0];
    let op = Op { domain: "model", name: "Block" };
    let block = graph.add_block();
    let result = body(&mut graph, block, outer);
    graph.set_outputs(block, &[result]);
    graph.functions.push(crate::Function { op, body: block });
    graph.add_node(Graph::MAIN, None, (op, vec![Some(outer)], attrs! {}), vec![ty(F)], origin());
    graph
}

#[test]
fn functions_capture_nothing() {
    let own = |graph: &mut Graph, block, _| graph.add_input(block, ty(F));
    verify(&function(own), Some(20)).unwrap();
    let capture = |graph: &mut Graph, block, outer| {
        graph.add_input(block, ty(F));
        outer
    };
    let message = error(&function(capture), None);
    assert!(message.contains("function `Block` returns %0"), "{message}");
    let wrong = |graph: &mut Graph, block, _| graph.add_input(block, ty(DType::I8));
    let message = error(&function(wrong), None);
    assert_eq!(message, "Block #1: operand 0 is f32 outside, but i8 inside");
}

#[test]
fn a_block_belongs_to_one_node() {
    let mut graph = counting(F, F, &scalar(DType::I64));
    let node = graph.node(graph.all_nodes()[0]).clone();
    let parts = (node.op, node.inputs, node.attrs);
    graph.add_node(Graph::MAIN, None, parts, vec![ty(F)], origin());
    let message = error(&graph, None);
    assert_eq!(message, "invalid graph: the block of a subgraph of Loop #1 is also used elsewhere");
}

#[test]
fn names_are_unique() {
    let mut graph = single("Exp", &[F], attrs! {}, &[F]);
    for id in graph.value_ids() {
        graph.value_mut(id).name = "same".to_owned();
    }
    // Names need not be unique before they are assigned.
    verify(&graph, None).unwrap();
    let message = verify_names(&graph).unwrap_err().to_string();
    assert_eq!(message, "invalid graph: two values are named `same`");
    assign_names(&mut graph, &origins().0);
    verify_names(&graph).unwrap();
}

#[test]
fn use_lists_must_be_complete() {
    let mut graph = Graph::new("test");
    let input = Some(graph.add_input(Graph::MAIN, ty(F)));
    let op = Op { domain: "other", name: "Op" };
    let parts = (op, vec![input], attrs! {});
    let node = graph.add_node(Graph::MAIN, None, parts, vec![ty(F)], origin());
    graph.node_mut(node).inputs.push(input);
    assert_eq!(error(&graph, None), "invalid graph: %0 (f32[2]) is read 2 times, but has 1 uses");
    graph.node_mut(node).inputs.clear();
    let message = error(&graph, None);
    assert!(message.contains("%0 (f32[2]) is not read at Operand("), "{message}");
}

#[test]
fn the_newest_feature_determines_the_opset() {
    let needs = |graph: &Graph| required_opset(graph, 18, |_| true).unwrap();
    assert_eq!(needs(&single("Exp", &[F], attrs! {}, &[F])), 18);
    assert_eq!(required_opset(&single("Exp", &[F], attrs! {}, &[F]), 21, |_| true).unwrap(), 21);
    assert_eq!(needs(&single("Gelu", &[F], attrs! {}, &[F])), 20);
    let cast = attrs! { to: F, saturate: false };
    assert_eq!(needs(&single("Cast", &[F], cast, &[F])), 19, "the attribute is new");
    let f8 = attrs! { to: DType::F8E5M2 };
    assert_eq!(needs(&single("Cast", &[F], f8, &[DType::F8E5M2])), 19, "the type is new");
    let wrap = attrs! { mode: "wrap" };
    assert_eq!(needs(&single("Pad", &[F, DType::I64], wrap, &[F])), 19, "the value is new");
    let sin = single("Sin", &[DType::BF16], attrs! {}, &[DType::BF16]);
    assert_eq!(needs(&sin), 18, "a cast makes it valid");
}

#[test]
fn opsets_can_exclude_each_other() {
    let mut graph = single("DFT", &[F], attrs! { axis: 1 }, &[F]);
    assert_eq!(
        required_opset(&graph, 18, |_| true).unwrap(),
        18,
        "the attribute became an operand"
    );
    let x = graph.block(Graph::MAIN).inputs[0];
    add(&mut graph, Graph::MAIN, "Gelu", &[x], attrs! {}, &[ty(F)]);
    let message = required_opset(&graph, 18, |_| true).unwrap_err().to_string();
    assert_eq!(message, "Gelu #1: no opset has both it and DFT #0");
}

#[test]
fn an_explicit_opset_may_be_too_old() {
    let say = |graph: &Graph, opset| check_opset(graph, opset).unwrap_err().to_string();
    let gelu = single("Gelu", &[F], attrs! {}, &[F]);
    check_opset(&gelu, 20).unwrap();
    assert_eq!(say(&gelu, 18), "opset 18 is too old: `Gelu` needs opset 20");
    let cast = single("Cast", &[F], attrs! { to: F, saturate: false }, &[F]);
    let reason = "opset 18 is too old: `Cast` needs opset 19 (unknown attribute `saturate`)";
    assert_eq!(say(&cast, 18), reason);
    let f8 = single("Identity", &[DType::F8E5M2], attrs! {}, &[DType::F8E5M2]);
    let reason =
        "opset 18 is too old: `f8e5m2` needs opset 19 (the element type was introduced there)";
    assert_eq!(say(&f8, 18), reason);
    let old = "opset 8 is not supported; choose one from 9 to 28";
    assert_eq!(say(&gelu, 8), old);
    let dft = single("DFT", &[F], attrs! { axis: 1 }, &[F]);
    assert_eq!(
        say(&dft, 20),
        "DFT #0: not valid at any opset from 20 on: unknown attribute `axis`"
    );
}

#[test]
fn one_node_is_checked_by_itself() {
    let good = single("Add", &[F, F], attrs! {}, &[F]);
    check_node(&good, good.all_nodes()[0]).unwrap();
    let bad = single("Add", &[F], attrs! {}, &[F]);
    let error = check_node(&bad, bad.all_nodes()[0]).unwrap_err().to_string();
    assert_eq!(error, "Add #0: operand `B` is missing");
}

#[test]
fn a_type_that_is_too_new_is_shown_at_the_first_node_that_uses_it() {
    let mut origins = Origins::default();
    let text = "g (float[2] x) => (float4e2m1[2] y) {
        [\"/a/Neg\"] t = Neg (x) [\"/b/Cast\"] y = Cast <to = 23> (t) }";
    let graph = crate::text::parse(text, &mut origins).unwrap();
    let Err(Error::OpsetTooOld { origin: Some(origin), .. }) = check_types(&graph, 20) else {
        panic!("no error with an origin")
    };
    assert_eq!(origins.scope_path(origins.get(origin).scope), "b");
}

#[test]
fn renamed_values_of_attributes_end_with_an_opset() {
    let sample = |mode: &str| single("GridSample", &[F, F], attrs! { mode: mode }, &[F]);
    for (mode, valid) in [("bilinear", 16..=19), ("linear", 20..=28), ("nearest", 16..=28)] {
        let graph = sample(mode);
        let node = graph.node(graph.all_nodes()[0]);
        for opset in schema::OLDEST..=schema::NEWEST {
            assert_eq!(is_valid_at(node, opset), valid.contains(&opset), "{mode} {opset}");
        }
    }
}
