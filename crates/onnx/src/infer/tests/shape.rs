use tensor::Tensor;

use super::{check, table};
use crate::Attr;

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
