use tensor::DType;

use super::table;

#[test]
fn unary() {
    table! {
        "Abs" "i32[2,b]" {} => "i32[2,b]";
        "Not" "bool[b]" {} => "bool[b]";
        "Not" "f32[b]" {} => "Not: input 0 is f32[b], but must be bool";
        "IsNaN" "f16[2,3]" {} => "bool[2,3]";
        "Softmax" "f32[2,3]" { axis: 1 } => "f32[2,3]";
        "Softmax" "f32[2,3]" { axis: 2 } => "Softmax: axis 2 is out of range for rank 2";
        "LogSoftmax" "f32[]" {} => "LogSoftmax: axis -1 is out of range for rank 0";
        "Gelu" "f32[4]" { approximate: "tanh" } => "f32[4]";
        "Gelu" "f32[4]" { approximate: "sine" } => "Gelu: `approximate` is `sine`, not none or tanh";
        "Cast" "f32[b,1]" { to: DType::BF16 } => "bf16[b,1]";
        "Cast" "f32[b,1]" {} => "Cast: attribute `to` is missing";
        "CastLike" "f32[b]", "i8[]" {} => "i8[b]";
        "BitCast" "f32[b]" { to: DType::U32 } => "u32[b]";
        "BitCast" "f32[b]" { to: DType::F64 } => "BitCast: f32 has 32 bits and f64 has 64";
        "Clip" "f32[b]", "-", "f32[]" {} => "f32[b]";
        "Clip" "f32[b]", "f32[1]" {} => "Clip: input 1 is f32[1], but its rank must be 0";
        "Clip" "f32[b]", "i32[]" {} => "Clip: operands are f32[b] and i32[]";
        "Trilu" "f32[b,3,4]", "-1" {} => "f32[b,3,4]";
        "Trilu" "f32[3]" {} => "Trilu: input 0 is f32[3], but its rank must be at least 2";
        "CumSum" "f32[b,3]", "i32[]" {} => "f32[b,3]";
        "CumSum" "f32[b,3]", "1" {} => "f32[b,3]";
        "CumProd" "f32[b,3]", "2" {} => "CumProd: axis 2 is out of range for rank 2";
        "CumSum" "f32[b,3]", "f32[]" {} => "CumSum: input 1 is f32[], but must be i32 or i64";
    }
}

#[test]
fn broadcasting() {
    table! {
        "Add" "f32[2,1,b]", "f32[3,1]" {} => "f32[2,3,b]";
        "Add" "f32[]", "f32[b]" {} => "f32[b]";
        "Add" "f32[b,3]", "f32[b,3]" {} => "f32[b,3]";
        "Add" "f32[b,3]", "f32[4,1]" {} => "f32[4,3]";
        "Add" "f32[b]", "f32[0]" {} => "f32[0]";
        "Add" "f32[floordiv(b + 5, 2)]", "f32[floordiv(b + 3, 2) + 1]" {} => "f32[floordiv(b + 5, 2)]";
        "Add" "f32[2]", "i32[2]" {} => "Add: operands are f32[2] and i32[2]";
        "Add" "f32[b]", "f32[t]" {} => "Add: sizes b and t do not broadcast in [b] and [t]";
        "Add" "f32[4,2]", "f32[3]" {} => "Add: sizes 2 and 3 do not broadcast in [4,2] and [3]";
    }
}

#[test]
fn several_operands() {
    table! {
        "Less" "f32[2,1]", "f32[3]" {} => "bool[2,3]";
        "And" "bool[2]", "bool[]" {} => "bool[2]";
        "Xor" "i32[2]", "i32[2]" {} => "Xor: input 0 is i32[2], but must be bool";
        "Pow" "f32[2]", "i64[]" {} => "f32[2]";
        "Mod" "i32[2]", "i32[]" {} => "i32[2]";
        "Mod" "f32[2]", "f32[]" { fmod: true } => "f32[2]";
        "Mod" "f32[2]", "f32[]" {} => "Mod: floating-point operands need `fmod`";
        "BitShift" "u32[2]", "u32[2]" { direction: "LEFT" } => "u32[2]";
        "BitShift" "u32[2]", "u32[2]" {} => "BitShift: `direction` is ``, not LEFT or RIGHT";
        "Max" "f32[b,1]" {} => "f32[b,1]";
        "Sum" "f32[b,1]", "f32[3]", "f32[2,1,1]" {} => "f32[2,b,3]";
        "Min" "f32[2]", "f32[2]", "f64[2]" {} => "Min: operands are f32[2] and f64[2]";
        "PRelu" "f32[2,b,3]", "f32[b,1]" {} => "f32[2,b,3]";
        "PRelu" "f32[3]", "f32[2,3]" {} => "PRelu: input 1 is f32[2,3], which does not broadcast to [3]";
        "PRelu" "f32[1]", "f32[b]" {} => "PRelu: input 1 is f32[b], which does not broadcast to [1]";
        "Where" "bool[b,1]", "f32[3]", "f32[]" {} => "f32[b,3]";
        "Where" "f32[b,1]", "f32[3]", "f32[]" {} => "Where: input 0 is f32[b,1], but must be bool";
        "Where" "bool[b,1]", "f32[3]", "i32[]" {} => "Where: operands are f32[3] and i32[]";
    }
}

#[test]
fn reductions() {
    table! {
        "ReduceSum" "f32[2,b,4]", "{1}" {} => "f32[2,1,4]";
        "ReduceMax" "f32[2,b,4]", "{-1, 0}" { keepdims: false } => "f32[b]";
        "ReduceMean" "f32[2,b]" {} => "f32[1,1]";
        "ReduceMean" "f32[2,b]" { keepdims: false } => "f32[]";
        "ReduceMean" "f32[2,b]", "-" { noop_with_empty_axes: true } => "f32[2,b]";
        "ReduceProd" "f32[2,b]", "{}" { keepdims: false } => "f32[]";
        "ReduceProd" "f32[2,b]", "{}" { noop_with_empty_axes: true } => "f32[2,b]";
        "ReduceSum" "f32[2,b]", "{2}" {} => "ReduceSum: axis 2 is out of range for rank 2";
        "ReduceSum" "f32[2,b]", "{1, -1}" {} => "ReduceSum: axis -1 occurs twice";
        "ReduceSum" "f32[2,b]", "i64[1]" {} => "ReduceSum: input 1 must be known here";
        "ReduceSum" "f32[2,b]", "{b}" {} => "ReduceSum: input 1 holds b, but must hold a number";
        "ReduceSum" "f32[2,b]", "1" {} => "ReduceSum: input 1 is i64[], but its rank must be 1";
        "ReduceSum" "f32[2,b]" { axes: vec![0] } => "ReduceSum: `axes` is an operand, not an attribute";
        "ArgMax" "f32[2,b]" { axis: -1, keepdims: false } => "i64[2]";
        "ArgMin" "f32[2,b]" {} => "i64[1,b]";
        "ArgMin" "f32[0,b]" {} => "ArgMin: axis 0 of f32[0,b] is empty";
        "Det" "f32[b,3,3]" {} => "f32[b]";
        "Det" "f32[b,3,4]" {} => "Det: input 0 is f32[b,3,4], but its matrices must be square";
    }
}
