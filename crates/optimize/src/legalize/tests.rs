use onnx::{Attr, Attrs, Function, Graph, Op, attrs};
use provenance::{Origins, Stage};
use tensor::DType::{
    self, BF16, Bool, C64, F8E5M2, F16, F32, F64, I4, I8, I16, I32, I64, U8, U16, U32, U64,
};
use tensor::Tensor;

use super::testing::{outcome, show, single};
use super::*;

/// The default target at an opset that models usually have.
fn usual() -> (i64, Target) {
    (21, Target::default())
}

/// Returns the beginning of the error of an operator that the default target cannot compute.
fn refusal(operator: &str) -> String {
    format!("{} cannot compute {operator}", Target::default())
}

/// Returns the replacement of a node whose operands and result have type `dtype`.
fn same(op: &'static str, operands: usize, dtype: DType) -> String {
    outcome(op, &vec![dtype; operands], Attrs::new(), &[dtype], usual()).unwrap()
}

fn error(op: &'static str, operands: usize, dtype: DType) -> String {
    let result = outcome(op, &vec![dtype; operands], Attrs::new(), &[dtype], usual());
    result.unwrap_err().to_string()
}

#[test]
fn supported_nodes_are_unchanged() {
    for dtype in [I8, I64, U64, F16, F32, F64] {
        assert_eq!(same("Add", 2, dtype), format!("Add:{dtype}"));
    }
    assert_eq!(same("Erf", 1, F16), "Erf:f16", "the runtime inserts these casts itself");
}

#[test]
fn small_floats_are_computed_in_single_precision() {
    let around = |op: &str, casts| format!("{}{op}:f32 Cast:bf16", "Cast:f32 ".repeat(casts));
    for op in ["Add", "Div", "Max", "Pow", "MatMul"] {
        // Both operands of these are different values.
        assert_eq!(same(op, 2, BF16), around(op, 2), "{op}");
    }
    for op in ["Exp", "Erf", "Softmax", "Floor", "Neg", "Abs"] {
        assert_eq!(same(op, 1, BF16), around(op, 1), "{op}");
    }
    assert_eq!(same("Add", 2, F8E5M2), "Cast:f32 Cast:f32 Add:f32 Cast:f8e5m2");
}

#[test]
fn wrapping_arithmetic_may_change_signedness() {
    let cumulated = |d| outcome("CumSum", &[d, I64], Attrs::new(), &[d], usual()).unwrap();
    assert_eq!(cumulated(U64), "Cast:i64 CumSum:i64 Cast:u64");
    assert_eq!(cumulated(U32), "Cast:i32 CumSum:i32 Cast:u32");
    assert_eq!(cumulated(I8), "Cast:i32 CumSum:i32 Cast:i8");
    assert_eq!(same("Neg", 1, U32), "Cast:i32 Neg:i32 Cast:u32");
    assert_eq!(same("MatMul", 2, U8), "Cast:u32 Cast:u32 MatMul:u32 Cast:u8");
    assert_eq!(same("Add", 2, I4), "Cast:i8 Cast:i8 Add:i8 Cast:i4");
}

#[test]
fn products_that_may_be_sums_of_nothing_are_signed() {
    for (shapes, nodes) in [
        ("[2,3] a, uint32[3,4] b", "MatMul:u32"),
        ("[2,0] a, uint32[0,4] b", "Cast:i32 Cast:i32 MatMul:i32 Cast:u32"),
        ("[2,N] a, uint32[N,4] b", "Cast:i32 Cast:i32 MatMul:i32 Cast:u32"),
    ] {
        let text = format!("g (uint32{shapes}) => (uint32[2,4] y) {{ y = MatMul (a, b) }}");
        let mut origins = Origins::default();
        let mut graph = crate::testing::graph(&text, &mut origins);
        legalize(&mut graph, &mut origins, 21, Target::default()).unwrap();
        assert_eq!(show(&graph), nodes, "{shapes}");
    }
}

#[test]
fn moving_takes_any_type_that_holds_the_bits() {
    let chosen = |dtype| {
        let result = outcome("Where", &[Bool, dtype, dtype], Attrs::new(), &[dtype], usual());
        result.unwrap().split(' ').nth(2).map(str::to_owned)
    };
    assert_eq!(chosen(Bool).as_deref(), Some("Where:u8"));
    assert_eq!(chosen(I16).as_deref(), Some("Where:i32"));
    assert_eq!(chosen(U16).as_deref(), Some("Where:i32"));
    assert_eq!(chosen(U64).as_deref(), Some("Where:i64"));
    assert_eq!(chosen(BF16).as_deref(), Some("Where:f32"));
}

#[test]
fn comparing_keeps_values() {
    assert_eq!(same("Max", 2, I16), "Cast:i32 Cast:i32 Max:i32 Cast:i16");
    assert_eq!(same("Max", 2, U16), "Cast:u32 Cast:u32 Max:u32 Cast:u16");
    assert_eq!(same("ReduceMax", 1, U32), "Cast:f64 ReduceMax:f64 Cast:u32", "i64 is wrong");
    assert_eq!(same("ReduceMax", 1, Bool), "Cast:u8 ReduceMax:u8 Cast:bool");
    let equal = outcome("Equal", &[BF16, BF16], Attrs::new(), &[Bool], usual());
    assert_eq!(equal.unwrap(), "Cast:f32 Cast:f32 Equal:bool");
}

#[test]
fn order_of_u64_goes_through_a_flipped_bit() {
    let text = "g (uint64[2,2] x) => (int64[2] y) { y = ArgMax <keepdims = 0> (x) }";
    let argmax = super::testing::legalized(text, Target::default());
    assert_eq!(argmax, "BitwiseXor:u64 Cast:i64 ArgMax:i64");
}

#[test]
fn sizes_are_small_numbers() {
    let mut origins = Origins::default();
    let mut graph = Graph::new("test");
    let sizes = [3, 4].map(|n| graph.add_constant(Tensor::i64s(&[n])));
    let ty = graph.ty(sizes[0]).clone();
    let emitted = super::testing::origin(&mut origins);
    let node = (Op::onnx("Max"), sizes.map(Some).to_vec(), Attrs::new());
    let first = graph.add_node(Graph::MAIN, None, node, vec![ty.clone()], emitted);
    let x = graph.add_input(Graph::MAIN, ty.clone());
    let node = (Op::onnx("Max"), vec![Some(x), Some(sizes[0])], Attrs::new());
    let second = graph.add_node(Graph::MAIN, None, node, vec![ty], emitted);
    let results = [first, second].map(|id| graph.node(id).outputs[0]);
    graph.set_outputs(Graph::MAIN, &results);
    legalize(&mut graph, &mut origins, 21, Target::default()).unwrap();
    assert_eq!(show(&graph), "Max:i64 Greater:bool Where:i64");
}

#[test]
fn integers_are_divided_as_integers() {
    let shift = attrs! { direction: "LEFT" };
    let shifted = outcome("BitShift", &[U16, U16], shift, &[U16], usual());
    assert_eq!(shifted.unwrap(), "Cast:u32 Cast:u32 BitShift:u32 Cast:u16");
    assert!(error("Pow", 2, I8).ends_with("its exponent is not one small constant"));
    assert_eq!(
        error("Sin", 1, I32),
        refusal("`Sin` on i32: it supports f16, f32, f64, none of which can replace i32")
    );
}

#[test]
fn indices_are_widened_by_value() {
    let gather = |index| outcome("Gather", &[BF16, index], attrs! { axis: 0 }, &[BF16], usual());
    assert_eq!(gather(I64).unwrap(), "Gather:bf16");
    assert_eq!(gather(U8).unwrap(), "Cast:i32 Gather:bf16");
    assert_eq!(gather(U32).unwrap(), "Cast:i64 Gather:bf16");
    assert!(gather(U64).is_err());
}

#[test]
fn scatter_depends_on_its_reduction() {
    let scatter = |reduction: &str, dtype| {
        let attrs = attrs! { reduction: reduction };
        outcome("ScatterND", &[dtype, I64, dtype], attrs, &[dtype], usual()).unwrap()
    };
    assert_eq!(scatter("none", BF16), "ScatterND:bf16");
    assert_eq!(scatter("none", Bool), "ScatterND:bool");
    assert_eq!(scatter("add", BF16), "Cast:f32 Cast:f32 ScatterND:f32 Cast:bf16");
}

#[test]
fn casts_between_rare_types_make_a_stop() {
    let cast = |from, to, opset| {
        let target = (opset, Target::default());
        outcome("Cast", &[from], attrs! { to: to }, &[to], target).unwrap()
    };
    assert_eq!(cast(BF16, I8, 21), "Cast:i8");
    assert_eq!(cast(U64, I64, 21), "Cast:i64");
}

#[test]
fn the_specification_is_a_target_too() {
    let spec = |op, dtype, opset| {
        outcome(op, &[dtype], Attrs::new(), &[dtype], (opset, Target::any())).unwrap()
    };
    assert_eq!(spec("Sin", BF16, 21), "Cast:f32 Sin:f32 Cast:bf16");
    assert_eq!(spec("Sin", BF16, 22), "Sin:bf16");
    assert_eq!(spec("Erf", F64, 18), "Erf:f64");
    assert_eq!(spec("Neg", U32, 18), "Cast:i32 Neg:i32 Cast:u32");
    let message = outcome("Erf", &[I32], Attrs::new(), &[I32], (18, Target::any()));
    let message = message.unwrap_err().to_string();
    assert!(message.starts_with("ONNX cannot compute `Erf` on i32: it supports"));
}

#[test]
fn unsupported_nodes_are_errors() {
    let det = refusal("`Det` on f64: it supports f16, f32");
    assert!(error("Det", 1, F64).starts_with(&det));
    assert!(error("Add", 2, C64).starts_with(&refusal("`Add` on c64")));
    let random = outcome("RandomNormalLike", &[F32], Attrs::new(), &[F32], (22, Target::default()));
    let reason = refusal("`RandomNormalLike` on f32: it has no kernel at this opset");
    assert_eq!(random.unwrap_err().to_string(), reason);
    let mut origins = Origins::default();
    let ty: (DType, &[i64]) = (F64, &[2, 2]);
    let mut graph = single(&mut origins, "Det", &[ty], Attrs::new(), &[ty]);
    let node = graph.all_nodes()[0];
    let expected = graph.node(node).origin;
    let result = legalize(&mut graph, &mut origins, 21, Target::default());
    assert!(
        matches!(result, Err(Error::Unsupported { origin, dtype: F64, .. }) if origin == expected)
    );
}

#[test]
fn an_operand_that_occurs_twice_is_cast_once() {
    let mut origins = Origins::default();
    let ty: (DType, &[i64]) = (BF16, &[2]);
    let mut graph = single(&mut origins, "Mul", &[ty, ty], Attrs::new(), &[ty]);
    let node = graph.all_nodes()[0];
    let x = graph.node(node).inputs[0];
    onnx::Editor::new(&mut graph, &mut origins, provenance::Stage::Lower).set_input(node, 1, x);
    legalize(&mut graph, &mut origins, 21, Target::default()).unwrap();
    assert_eq!(show(&graph), "Cast:f32 Mul:f32 Cast:bf16");
}

#[test]
fn names_stay_with_the_results_and_casts_have_an_origin() {
    let mut origins = Origins::default();
    let ty: (DType, &[i64]) = (BF16, &[2]);
    let mut graph = single(&mut origins, "Exp", &[ty], Attrs::new(), &[ty]);
    let output = graph.block(Graph::MAIN).outputs()[0];
    graph.set_name(output, "y".to_owned());
    legalize(&mut graph, &mut origins, 21, Target::default()).unwrap();
    let output = graph.block(Graph::MAIN).outputs()[0];
    assert_eq!((graph.value(output).name.as_str(), graph.ty(output).dtype), ("y", BF16));
    for id in graph.all_nodes() {
        let node = graph.node(id);
        let emitter = origins.get(node.origin).emitter;
        let expected =
            if node.is("Cast") { ("Exp", Stage::Legalize) } else { ("test", Stage::Lower) };
        assert_eq!((emitter.name, emitter.stage), expected);
    }
}

#[test]
fn functions_and_inner_blocks_are_adapted() {
    let mut origins = Origins::default();
    let ty: (DType, &[i64]) = (BF16, &[2]);
    let mut graph = single(&mut origins, "Exp", &[ty], Attrs::new(), &[ty]);
    let emitted = super::testing::origin(&mut origins);
    let element = graph.ty(graph.block(Graph::MAIN).inputs[0]).clone();
    let body = graph.add_block();
    let x = graph.add_input(body, element.clone());
    let node = (Op::onnx("Exp"), vec![Some(x)], Attrs::new());
    let node = graph.add_node(body, None, node, vec![element], emitted);
    let results = graph.node(node).outputs.clone();
    graph.set_outputs(body, &results);
    graph.functions.push(Function { op: Op { domain: "model", name: "F" }, body });
    legalize(&mut graph, &mut origins, 21, Target::default()).unwrap();
    assert_eq!(graph.nodes_of(body).count(), 3);
    onnx::verify(&graph, Some(21)).unwrap();
}

#[test]
fn convolutions_of_doubles_and_integers_become_products() {
    for (dtype, compute) in [(F64, F64), (I8, I32), (U64, I64)] {
        let mut origins = Origins::default();
        let attrs = attrs! { pads: vec![1, 1, 1, 1], strides: vec![2, 2], group: 2 };
        let inputs: [(DType, &[i64]); 3] =
            [(dtype, &[1, 4, 8, 8]), (dtype, &[6, 2, 3, 3]), (dtype, &[6])];
        let mut graph = single(&mut origins, "Conv", &inputs, attrs, &[(dtype, &[1, 6, 4, 4])]);
        legalize(&mut graph, &mut origins, 21, Target::default()).unwrap();
        onnx::verify(&graph, Some(21)).unwrap();
        let shown = show(&graph);
        assert!(shown.contains(&format!("MatMul:{compute}")), "{shown}");
        let output = graph.block(Graph::MAIN).outputs()[0];
        let ty = graph.ty(output);
        assert_eq!(ty.to_string(), format!("{dtype}[1,6,4,4]"));
    }
    let auto: Attrs = vec![("auto_pad", Attr::String("SAME_UPPER".into()))];
    let inputs: [(DType, &[i64]); 2] = [(F64, &[1, 4, 8, 8]), (F64, &[6, 4, 3, 3])];
    let mut origins = Origins::default();
    let mut graph = single(&mut origins, "Conv", &inputs, auto, &[(F64, &[1, 6, 8, 8])]);
    let message = legalize(&mut graph, &mut origins, 21, Target::default()).unwrap_err();
    assert!(message.to_string().ends_with("and its padding is not explicit"), "{message}");
}

#[test]
fn transposed_convolutions_of_doubles_are_convolutions() {
    let inputs: [(DType, &[i64]); 2] = [(F64, &[1, 4, 8, 8]), (F64, &[4, 6, 3, 3])];
    let legal = |attrs, size| {
        let mut origins = Origins::default();
        let outputs: [(DType, &[i64]); 1] = [(F64, &[1, 6, size, size])];
        let mut graph = single(&mut origins, "ConvTranspose", &inputs, attrs, &outputs);
        legalize(&mut graph, &mut origins, 21, Target::default())?;
        onnx::verify(&graph, Some(21)).unwrap();
        Ok(graph.ty(graph.block(Graph::MAIN).outputs()[0]).to_string())
    };
    let padded = attrs! { strides: vec![2, 2], pads: vec![1, 1, 1, 1], output_padding: vec![1, 1] };
    for (attrs, size) in [(Attrs::new(), 10), (padded, 16)] {
        assert_eq!(legal(attrs, size).unwrap(), format!("f64[1,6,{size},{size}]"));
    }
    let auto: Attrs = vec![("auto_pad", Attr::String("SAME_UPPER".into()))];
    for attrs in [auto, attrs! { output_shape: vec![8, 8] }] {
        let message: super::Error = legal(attrs, 8).unwrap_err();
        assert!(message.to_string().ends_with("and its padding is not explicit"), "{message}");
    }
}

/// The operators after legalisation, each with the modules that it came from.
fn sources(text: &str) -> Vec<String> {
    let mut origins = Origins::default();
    let mut graph = crate::testing::graph(text, &mut origins);
    legalize(&mut graph, &mut origins, 23, Target::default()).unwrap();
    let forms = crate::Forms::auto(23);
    super::avoid_bugs(&mut graph, &mut origins, 23, Target::default(), &forms).unwrap();
    let of = |id| {
        let node: &onnx::Node = graph.node(id);
        let also = origins.get(node.origin).also.to_vec();
        let scope = |id| origins.scope_path(origins.get(id).scope);
        let scopes: Vec<&str> = std::iter::once(node.origin).chain(also).map(scope).collect();
        format!("{} {}", node.op.name, scopes.join(" "))
    };
    graph.all_nodes().into_iter().map(of).collect()
}

#[test]
fn a_complement_comes_from_the_error_function_as_well() {
    let found = sources(
        r#"g (float[3] x) => (float[3] y) {
            one = Constant <value = float {1}> ()
            ["/e/Erf"] e = Erf (x)
            ["/s/Sub"] y = Sub (one, e)
        }"#,
    );
    assert!(found.len() > 5 && found.iter().all(|node| node.ends_with(" s e")), "{found:?}");
}

#[test]
fn a_transpose_behind_a_cast_stays_one_of_its_line() {
    let found = sources(
        r#"g (float16[3,3,3] x, float[3,2] w) => (float[3,3,2] y) {
            ["/t/Transpose"] t = Transpose <perm = [1, 2, 0]> (x)
            ["/c/Cast"] c = Cast <to = 1> (t)
            ["/m/MatMul"] y = MatMul (c, w)
        }"#,
    );
    assert_eq!(found, ["Cast c t", "Transpose t c", "MatMul m"]);
}
