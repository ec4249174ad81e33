use tensor::DType;

use super::table;

#[test]
fn gathers() {
    table! {
        "Gather" "f32[5,b]", "i64[2,t]" {} => "f32[2,t,b]";
        "Gather" "f32[5,b]", "i32[]" { axis: -1 } => "f32[5]";
        "Gather" "f32[]", "i32[]" {} => "Gather: input 0 is f32[], but its rank must be at least 1";
        "Gather" "f32[5]", "f32[]" {} => "Gather: input 1 is f32[], but must be i32 or i64";
        "GatherElements" "f32[5,b]", "i64[2,b]" {} => "f32[2,b]";
        "GatherElements" "f32[5,3]", "i64[2,4]" {} => "GatherElements: indices are i64[2,4], data are f32[5,3]";
        "GatherElements" "f32[5,3]", "i64[2]" {} => "GatherElements: input 1 is i64[2], but its rank must be 2";
        "GatherND" "f32[2,3,b]", "i64[t,2]" {} => "f32[t,b]";
        "GatherND" "f32[b,3,4]", "i64[b,7,1]" { batch_dims: 1 } => "f32[b,7,4]";
        "GatherND" "f32[2,3]", "i64[5,3]" {} => "GatherND: indices of 3 numbers do not fit f32[2,3]";
        "GatherND" "f32[2,3]", "i64[5,0]" {} => "GatherND: indices of 0 numbers do not fit f32[2,3]";
        "GatherND" "f32[b,3]", "i64[b,7,2]" { batch_dims: 1 } => "GatherND: indices of 2 numbers do not fit f32[b,3]";
        "GatherND" "f32[2,3]", "i64[5,b]" {} => "GatherND: the last size of i64[5,b] must be a number";
        "GatherND" "f32[2,3]", "i64[3,1]" { batch_dims: 1 } => "GatherND: f32[2,3] and i64[3,1] differ on batch axes";
        "GatherND" "f32[2,3]", "i64[3,1]" { batch_dims: 2 } => "GatherND: `batch_dims` is 2 for f32[2,3], i64[3,1]";
    }
}

#[test]
fn scatters() {
    table! {
        "ScatterElements" "f32[5,b]", "i32[2,b]", "f32[2,b]" { reduction: "add" } => "f32[5,b]";
        "ScatterElements" "f32[5]", "i32[2]", "f32[3]" {} => "ScatterElements: updates are f32[3], but their shape must be [2]";
        "ScatterElements" "f32[5]", "i32[2]", "i32[2]" {} => "ScatterElements: operands are f32[5] and i32[2]";
        "ScatterND" "f32[5,b]", "i64[7,1]", "f32[7,b]" {} => "f32[5,b]";
        "ScatterND" "f32[5,b]", "i64[7,2]", "f32[7]" { reduction: "max" } => "f32[5,b]";
        "ScatterND" "f32[5,b]", "i64[7,1]", "f32[7]" {} => "ScatterND: updates are f32[7], but their shape must be [7,b]";
        "ScatterND" "f32[5,b]", "i64[7,1]", "f32[8,b]" {} => "ScatterND: updates are f32[8,b], but their shape must be [7,b]";
        "ScatterND" "f32[5,b]", "i64[7,1]", "f32[7,c]" {} => "ScatterND: updates are f32[7,c], but their shape must be [7,b]";
        "ScatterND" "f32[5]", "i32[7,1]", "f32[7]" {} => "ScatterND: input 1 is i32[7,1], but must be i64";
        "ScatterND" "f32[5]", "i64[7,1]", "f32[7]" { reduction: "or" } => "ScatterND: the reduction `or` does not exist";
        "TensorScatter" "f32[b,h,8,4]", "f32[b,h,1,4]", "i64[b]" {} => "f32[b,h,8,4]";
        "TensorScatter" "f32[2,8,4]", "f32[2,3,4]" { axis: 1, mode: "circular" } => "f32[2,8,4]";
        "TensorScatter" "f32[2,8,4]", "f32[2,8,4]" {} => "f32[2,8,4]";
        "TensorScatter" "f32[2,8,4]", "f32[2,9,4]" {} => "TensorScatter: f32[2,9,4] is longer than f32[2,8,4]";
        "TensorScatter" "f32[2,8,4]", "f32[2,1,3]" {} => "TensorScatter: updates are f32[2,1,3], but their shape must be [2,1,4]";
        "TensorScatter" "f32[2,8,4]", "f32[2,1,4]", "i64[1]" {} => "TensorScatter: input 2 is i64[1] for f32[2,8,4]";
        "TensorScatter" "f32[2,8,4]", "f32[1,8,4]" { axis: 0 } => "TensorScatter: the first axis is that of the batch";
    }
}

#[test]
fn choices() {
    table! {
        "OneHot" "i64[b,3]", "10", "f32[2]" {} => "f32[b,3,10]";
        "OneHot" "i64[b,3]", "{t}", "bool[2]" { axis: 0 } => "bool[t,b,3]";
        "OneHot" "i64[b]", "1", "f32[2]" {} => "f32[b,1]";
        "OneHot" "i64[b]", "0", "f32[2]" {} => "OneHot: the depth is 0";
        "OneHot" "i64[b]", "10", "f32[3]" {} => "OneHot: input 2 is f32[3], but must hold two values";
        "OneHot" "i64[b]", "f32(10.5)", "i32[2]" {} => "i32[b,10]";
        "OneHot" "i64[b]", "f32{10, 10}", "i32[2]" {} => "OneHot: input 1 is f32[2], but must be a scalar";
        "OneHot" "i64[b]", "i64[]", "f32[2]" {} => "OneHot: input 1 must be known here";
        "TopK" "f32[b,10]", "{3}" {} => "f32[b,3]; i64[b,3]";
        "TopK" "f32[b,10]", "{b}" { axis: 0 } => "f32[b,10]; i64[b,10]";
        "TopK" "f32[b]", "{0}" {} => "f32[0]; i64[0]";
        "TopK" "f32[b]", "{-1}" {} => "TopK: -1 elements of axis 0 of f32[b]";
        "TopK" "f32[10]", "{11}" {} => "TopK: 11 elements of axis 0 of f32[10]";
        "EyeLike" "f32[b,10]" { dtype: DType::I32 } => "i32[b,10]";
        "EyeLike" "f32[b,10]" {} => "f32[b,10]";
        "NonZero" "f32[10]" {} => "NonZero: the size of the result depends on the data";
    }
}
