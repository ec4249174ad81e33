//! Tables of operators on constants, with the elements of their results.

use provenance::Origins;
use tensor::Tensor;

use super::layout::broadcast_strides;
use super::{Exactness, Operation, axis, view};
use crate::Graph;
use crate::text::{parse, write_elements};

/// The elements of a result that is the same in every runtime, and one whose last bits may differ.
type Expected = [Option<&'static str>; 2];

const NEVER: Expected = [None, None];

fn always(elements: &'static str) -> Expected {
    [Some(elements); 2]
}

fn rounded(elements: &'static str) -> Expected {
    [None, Some(elements)]
}

/// Returns the graph of a node that computes `y` from the constants `a`, `b` and `c`.
fn graph(ty: &str, operands: &[&str], node: &str) -> Graph {
    let constant =
        |(name, value): (&str, &&str)| format!("{name} = Constant <value = {value}> () ");
    let constants: String = ["a", "b", "c"].into_iter().zip(operands).map(constant).collect();
    let text = format!("g () => ({ty} y) {{ {constants} {node} }}");
    parse(&text, &mut Origins::default()).unwrap()
}

#[track_caller]
fn check(rows: &[(&str, &[&str], &str, Expected)]) {
    for (ty, operands, node, expected) in rows {
        let graph = graph(ty, operands, node);
        let y = graph.block(Graph::MAIN).outputs()[0];
        let found = [graph.facts().constant(y), graph.facts().approximate(y, 4096)];
        let text = |tensor: Tensor| {
            let mut text = String::new();
            write_elements(&tensor, &mut text);
            text
        };
        let found = found.map(|found| found.map(text));
        assert_eq!(found.each_ref().map(Option::as_deref), *expected, "{node} of {operands:?}");
    }
}

#[test]
fn arithmetic() {
    check(&[
        (
            "float[2]",
            &["float[2] {1, 2}", "float {0.5}", "float {4}"],
            "y = Sum (a, b, c)",
            rounded("5.5, 6.5"),
        ),
        ("float[2]", &["float[2] {0, 5}", "float {1}"], "y = Max (a, b)", always("1.0, 5.0")),
        ("float[2]", &["float[2] {-0.0, 5}", "float {0}"], "y = Max (a, b)", NEVER),
        ("float[2]", &["float[2] {nan, 5}", "float {1}"], "y = Min (a, b)", NEVER),
        ("float[2]", &["float[2] {0, 5}", "float {nan}"], "y = Min (a, b)", NEVER),
        ("float", &["float {1}", "float {2}", "float {3}"], "y = Max (a, b, c)", NEVER),
        ("float", &["float {1}"], "y = Max (a)", NEVER),
        ("float", &["float {5.5}", "float {-2}"], "y = Mod <fmod = 1> (a, b)", always("1.5")),
        ("int32", &["int32 {-7}", "int32 {2}"], "y = Mod <fmod = 1> (a, b)", always("-1")),
        ("int32", &["int32 {-7}", "int32 {2}"], "y = Mod (a, b)", always("1")),
        ("int32", &["int32 {7}", "int32 {0}"], "y = Mod (a, b)", NEVER),
        (
            "uint8",
            &["uint8 {3}", "uint8 {7}"],
            "y = BitShift <direction = \"LEFT\"> (a, b)",
            always("128"),
        ),
        ("uint8", &["uint8 {3}", "uint8 {8}"], "y = BitShift <direction = \"LEFT\"> (a, b)", NEVER),
        ("float[3]", &["float[3] {-1, -0.0, 2}"], "y = Relu (a)", always("0.0, 0.0, 2.0")),
        ("float[2]", &["float[2] {nan, 2}"], "y = Relu (a)", NEVER),
        ("bool[3]", &["float[3] {inf, -inf, 1}"], "y = IsInf (a)", always("1, 1, 0")),
        (
            "bool[3]",
            &["float[3] {inf, -inf, 1}"],
            "y = IsInf <detect_negative = 0> (a)",
            always("1, 0, 0"),
        ),
        (
            "bool[3]",
            &["float[3] {inf, -inf, 1}"],
            "y = IsInf <detect_positive = 0> (a)",
            always("0, 1, 0"),
        ),
        ("float8e4m3fn", &["float8e4m3fn {56}"], "y = Neg (a)", NEVER),
    ]);
}

#[test]
fn clips_decide_the_sign_of_zero() {
    check(&[
        (
            "float[3]",
            &["float[3] {-1, 0.5, 3}", "float {0}", "float {2}"],
            "y = Clip (a, b, c)",
            always("0.0, 0.5, 2.0"),
        ),
        (
            "float[2]",
            &["float[2] {0, 3}", "float {0}", "float {2}"],
            "y = Clip (a, b, c)",
            always("0.0, 2.0"),
        ),
        (
            "float[2]",
            &["float[2] {-0.0, 3}", "float {0}", "float {2}"],
            "y = Clip (a, b, c)",
            rounded("-0.0, 2.0"),
        ),
        (
            "float[2]",
            &["float[2] {0, -3}", "float {-2}", "float {-0.0}"],
            "y = Clip (a, b, c)",
            rounded("0.0, -2.0"),
        ),
        ("float[2]", &["float[2] {0, 2}", "float {0.5}"], "y = Clip (a, b)", always("0.5, 2.0")),
        (
            "float[2]",
            &["float[2] {1, 3}", "float {2}", "float {2}"],
            "y = Clip (a, b, c)",
            always("2.0, 2.0"),
        ),
        ("float[2]", &["float[2] {1, 3}", "float {2}", "float {1}"], "y = Clip (a, b, c)", NEVER),
        ("float[2]", &["float[2] {nan, 3}", "float {1}", "float {2}"], "y = Clip (a, b, c)", NEVER),
        (
            "int32[3]",
            &["int32[3] {-1, 1, 3}", "int32 {0}", "int32 {2}"],
            "y = Clip (a, b, c)",
            always("0, 1, 2"),
        ),
    ]);
}

#[test]
fn casts() {
    check(&[
        ("int32[2]", &["float[2] {1.9, -1.9}"], "y = Cast <to = 6> (a)", always("1, -1")),
        ("int32", &["float {nan}"], "y = Cast <to = 6> (a)", NEVER),
        ("int32", &["float {3e9}"], "y = Cast <to = 6> (a)", NEVER),
        ("float16", &["int32 {2049}"], "y = Cast <to = 10> (a)", always("2048.0")),
        ("float16", &["int64 {16777217}"], "y = Cast <to = 10> (a)", NEVER),
        ("bfloat16", &["int32 {256}"], "y = Cast <to = 16> (a)", always("256.0")),
        ("bfloat16", &["int32 {257}"], "y = Cast <to = 16> (a)", NEVER),
        ("bfloat16", &["int64 {16777217}"], "y = Cast <to = 16> (a)", NEVER),
    ]);
}

#[test]
fn elements_are_moved() {
    check(&[
        (
            "float[3,3]",
            &["float[2,2] {1, 2, 3, 4}", "int64[4] {1, 0, 0, 1}"],
            "y = Pad (a, b)",
            always("0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 3.0, 4.0, 0.0"),
        ),
        (
            "int8[2,2]",
            &["int8[2,2] {1, 2, 3, 4}"],
            "y = Trilu <upper = 0> (a)",
            always("1, 0, 3, 4"),
        ),
        // Elements that share a byte are not moved.
        ("int4[2,2]", &["int4[2,2] {18, 52}"], "y = Trilu <upper = 0> (a)", NEVER),
        (
            "float[3]",
            &["float[3] {1, 2, 3}", "int64[2,1] {0, 2}", "float[2] {5, 7}"],
            "y = ScatterND <reduction = \"mul\"> (a, b, c)",
            always("5.0, 2.0, 21.0"),
        ),
        (
            "float[3]",
            &["float[3] {1, 2, 3}", "int64[2,1] {0, 0}", "float[2] {5, 7}"],
            "y = ScatterND <reduction = \"max\"> (a, b, c)",
            always("7.0, 2.0, 3.0"),
        ),
        (
            "float[3]",
            &["float[3] {1, 2, 3}", "int64[2,1] {0, 0}", "float[2] {5, 7}"],
            "y = ScatterND <reduction = \"add\"> (a, b, c)",
            rounded("13.0, 2.0, 3.0"),
        ),
        (
            "float[3]",
            &["float[3] {1, 2, 3}", "int64[2,1] {0, 0}", "float[2] {5, 7}"],
            "y = ScatterND (a, b, c)",
            NEVER,
        ),
    ]);
}

/// The largest number of a type may be a sum, but nothing beyond it.
#[test]
fn reductions() {
    check(&[
        (
            "float",
            &["float[1] {3.4028235e38}", "int64[1] {0}"],
            "y = ReduceSum <keepdims = 0> (a, b)",
            rounded("3.4028235e38"),
        ),
        (
            "float",
            &["float[2] {3.4028235e38, -1e38}", "int64[1] {0}"],
            "y = ReduceSum <keepdims = 0> (a, b)",
            NEVER,
        ),
        (
            "float",
            &["float[1] {3.4028235e38}", "int64[1] {0}"],
            "y = ReduceProd <keepdims = 0> (a, b)",
            rounded("3.4028235e38"),
        ),
        (
            "double",
            &["double[1] {5.562684646268003e-309}", "int64[1] {0}"],
            "y = ReduceProd <keepdims = 0> (a, b)",
            rounded("5.562684646268003e-309"),
        ),
        (
            "float",
            &["float[2] {1e30, 1e30}", "int64[1] {0}"],
            "y = ReduceProd <keepdims = 0> (a, b)",
            NEVER,
        ),
        ("float[2]", &["float[2] {1, 2}", "int64 {0}"], "y = CumSum (a, b)", rounded("1.0, 3.0")),
        (
            "float[1]",
            &["float[1] {3.4028235e38}", "int64 {0}"],
            "y = CumSum (a, b)",
            rounded("3.4028235e38"),
        ),
        ("int64", &["float[3] {1, 4, 4}"], "y = ArgMax <keepdims = 0> (a)", always("1")),
        ("int64", &["float[3] {1, nan, 4}"], "y = ArgMax <keepdims = 0> (a)", NEVER),
        (
            "float[2]",
            &["float[3] {1, 2, 4}", "int64[1] {2}"],
            "y, i = TopK (a, b)",
            always("4.0, 2.0"),
        ),
        ("float[2]", &["float[3] {1, nan, 4}", "int64[1] {2}"], "y, i = TopK (a, b)", NEVER),
    ]);
}

#[test]
fn convolutions_have_neither_bias_nor_automatic_padding() {
    let (x, w) = ("float[1,1,4] {1, 2, 4, 8}", "float[1,1,2] {1, -1}");
    check(&[
        ("float[1,1,3]", &[x, w], "y = Conv (a, b)", rounded("-1.0, -2.0, -4.0")),
        ("float[1,1,3]", &[x, w, "float[1] {1}"], "y = Conv (a, b, c)", NEVER),
        ("float[1,1,4]", &[x, w], "y = Conv <auto_pad = \"SAME_UPPER\"> (a, b)", NEVER),
        ("float[1,1,3]", &["float[1,1,4] {1, inf, 4, 8}", w], "y = Conv (a, b)", NEVER),
    ]);
}

#[test]
fn an_expansion_by_axes_of_size_one_is_a_view() {
    for (shape, is_view) in [([1, 2], true), ([3, 2], false)] {
        let [rows, columns] = shape;
        let graph = graph(
            &format!("float[{rows},{columns}]"),
            &["float[2] {1, 2}", &format!("int64[2] {{{rows}, {columns}}}")],
            "y = Expand (a, b)",
        );
        let y = graph.block(Graph::MAIN).outputs()[0];
        let node = graph.node(graph.producer(y).unwrap());
        let inputs = node.inputs.iter().map(|input| graph.constant((*input)?)).collect::<Vec<_>>();
        let (dtype, exactness) = (graph.ty(y).dtype, Exactness::EachBit);
        let operation =
            Operation { node, inputs: &inputs, dtype, shape: &shape, result: 0, exactness };
        assert_eq!(view(&operation).unwrap().is_some(), is_view);
    }
}

#[test]
fn shapes_must_broadcast() {
    assert_eq!(broadcast_strides(&[3, 1], &[2, 3, 4]), Ok(vec![0, 1, 0]));
    assert!(broadcast_strides(&[2], &[3]).is_err());
    assert!(broadcast_strides(&[1, 1], &[3]).is_err());
}

#[test]
fn axes_are_counted_from_either_end() {
    let axes = [-3, -2, -1, 0, 1, 2].map(|at| axis(at, 2).ok());
    assert_eq!(axes, [None, Some(0), Some(1), Some(0), Some(1), None]);
}
