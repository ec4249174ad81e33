use provenance::Origins;
use tensor::Tensor;

use super::{check, table};
use crate::Attr;
use crate::text::parse;

#[test]
fn shapes() {
    table! {
        "Shape" "f32[b,2,3]" {} => "i64[3]";
        "Shape" "f32[b,2,3]" { start: 1 } => "i64[2]";
        "Shape" "f32[b,2,3]" { start: -2, end: -1 } => "i64[1]";
        "Shape" "f32[b,2,3]" { start: -9, end: 9 } => "i64[3]";
        "Shape" "f32[b,2,3]" { start: 2, end: 1 } => "i64[0]";
        "Size" "f32[b,2]" {} => "i64[]";
        "ConstantOfShape" "{b, 2}" {} => "f32[b,2]";
        "ConstantOfShape" "{}" {} => "f32[]";
        "ConstantOfShape" "{b, 2}" { value: Tensor::bools(&[1], &[true]) } => "bool[b,2]";
        "ConstantOfShape" "{b, 2}" { value: Tensor::i64s(&[1, 2]) } => "ConstantOfShape: `value` must be a tensor of one element";
        "ConstantOfShape" "i64[2]" {} => "ConstantOfShape: input 0 must be known here";
        "ConstantOfShape" "{-1}" {} => "ConstantOfShape: input 0 holds the size -1";
    }
}

#[test]
fn ranges() {
    table! {
        "Range" "0", "10", "3" {} => "i64[4]";
        "Range" "10", "0", "-3" {} => "i64[4]";
        "Range" "5", "2", "1" {} => "i64[0]";
        "Range" "0", "b", "1" {} => "i64[b]";
        "Range" "0", "b", "2" {} => "i64[floordiv(b + 1, 2)]";
        "Range" "2", "b", "1" {} => "i64[max(b - 2, 0)]";
        "Range" "0", "b", "t" {} => "Range: the step is t, but must be a number";
        "Range" "0", "b", "0" {} => "Range: the step is 0";
        "Range" "i32(0)", "i32(7)", "i32(2)" {} => "i32[4]";
        "Range" "f32(0)", "f32(1)", "f32(0.1)" {} => "f32[10]";
        "Range" "f64(0)", "f64(1)", "f64(0.3)" {} => "f64[4]";
        "Range" "f64(1)", "f64(6)", "f64(2)" {} => "f64[3]";
        "Range" "f32(1)", "f32(6)", "f32(2)" {} => "f32[3]";
        "Range" "f64(0)", "f64(1e15)", "f64(1)" {} => "f64[1000000000000000]";
        "Range" "f64(0)", "f64(2e15)", "f64(1)" {} => "Range: 0 to 2000000000000000 by 1 is not a range";
        "Range" "f32(0)", "f32(inf)", "f32(1)" {} => "Range: 0 to inf by 1 is not a range";
        "Range" "f32[]", "f32(1)", "f32(0.1)" {} => "Range: input 0 must be known here";
        "Range" "f32(0)", "f32(1)", "f32(0)" {} => "Range: 0 to 1 by 0 is not a range";
    }
}

#[test]
fn constants() {
    table! {
        "Constant" { value: Tensor::i64s(&[1, 2]) } => "i64[2]";
        "Constant" { value_int: 3 } => "i64[]";
        "Constant" { value_float: 3.0 } => "f32[]";
        "Constant" { value_ints: vec![3, 4] } => "i64[2]";
        "Constant" {} => "Constant: there must be one numeric value attribute and nothing else";
    }
    let floats = vec![("value_floats", Attr::Floats(vec![1.0]))];
    check("Constant", &[], &floats, "f32[1]");
}

/// A range of floats has as many numbers as an axis only if it counts by one from its front.
#[test]
fn ranges_up_to_a_size() {
    let length = |start: &str, step: &str| {
        let text = format!(
            "g (float[B] x) => (float[B] y) {{
                front = Constant <value_ints = [0]> () s = Shape (x) q = Squeeze (s, front)
                size = Cast <to = 1> (q) start = Constant <value_float = {start}> ()
                step = Constant <value_float = {step}> () y = Range (start, size, step) }}"
        );
        parse(&text, &mut Origins::default()).map_err(|error| error.to_string())
    };
    assert!(length("0.0", "1.0").is_ok() && length("0.5", "1.0").is_ok());
    for (start, step) in [("0.0", "2.0"), ("1.0", "1.0"), ("-1.0", "1.0")] {
        let error = length(start, step).unwrap_err();
        assert!(error.contains("Range: input 1 must be known here"), "{error}");
    }
}
