use super::table;

#[test]
fn matrix_products() {
    table! {
        "MatMul" "f32[b,3]", "f32[3,4]" {} => "f32[b,4]";
        "MatMul" "f32[2,1,b,3]", "f32[5,3,4]" {} => "f32[2,5,b,4]";
        "MatMul" "f32[3]", "f32[b,3,4]" {} => "f32[b,4]";
        "MatMul" "f32[b,2,3]", "f32[3]" {} => "f32[b,2]";
        "MatMul" "f32[t]", "f32[t]" {} => "f32[]";
        "MatMul" "f32[2,3]", "f32[4,5]" {} => "MatMul: sizes 3 and 4 differ in f32[2,3] and f32[4,5]";
        "MatMul" "f32[2,b]", "f32[t,5]" {} => "MatMul: sizes b and t differ in f32[2,b] and f32[t,5]";
        "MatMul" "f32[2,3]", "f64[3,5]" {} => "MatMul: operands are f32[2,3] and f64[3,5]";
        "MatMul" "f32[]", "f32[3]" {} => "MatMul: input 0 is f32[], but its rank must be at least 1";
        "MatMulInteger" "u8[b,3]", "i8[3,4]", "u8[]", "i8[4]" {} => "i32[b,4]";
        "MatMulInteger" "u8[b,3]", "i8[3,4]", "i8[]" {} => "MatMulInteger: operands are u8[b,3] and i8[]";
        "MatMulInteger" "u8[b,3]", "i8[3,4]", "u8[]", "u8[4]" {} => "MatMulInteger: operands are i8[3,4] and u8[4]";
        "MatMulInteger" "f32[b,3]", "i8[3,4]" {} => "MatMulInteger: input 0 is f32[b,3], but must be i8 or u8";
        "Gemm" "f32[3,b]", "f32[4,3]", "f32[4]" { transA: true, transB: true } => "f32[b,4]";
        "Gemm" "f32[b,3]", "f32[3,4]" {} => "f32[b,4]";
        "Gemm" "f32[b,3]", "f32[4,3]" {} => "Gemm: sizes 3 and 4 differ in f32[b,3] and f32[4,3]";
        "Gemm" "f32[2,3]", "f32[3,4]", "f32[5,4]" {} => "Gemm: input 2 is f32[5,4], which does not broadcast to [2,4]";
    }
}

#[test]
fn einsums() {
    table! {
        "Einsum" "f32[b,3]", "f32[3,4]" { equation: "ij,jk->ik" } => "f32[b,4]";
        "Einsum" "f32[b,3]", "f32[3,4]" { equation: "zj, jA" } => "f32[4,b]";
        "Einsum" "f32[2,b,3]", "f32[1,3,4]" { equation: "...ij,...jk->...ik" } => "f32[2,b,4]";
        "Einsum" "f32[3,3,b]" { equation: "ii...->...i" } => "f32[b,3]";
        "Einsum" "f32[b]" { equation: "i->" } => "f32[]";
        "Einsum" "f32[b,3]", "f32[4,5]" { equation: "ij,jk->ik" } => "Einsum: `j` is both 3 and 4";
        "Einsum" "f32[b,3]" { equation: "ij,jk->ik" } => "Einsum: `ij,jk->ik` has 2 operands, not 1";
        "Einsum" "f32[b,3]" { equation: "i->i" } => "Einsum: `i` does not fit f32[b,3]";
        "Einsum" "f32[b]" { equation: "i->j" } => "Einsum: no operand has the label `j`";
        "Einsum" "f32[b]" { equation: "1->1" } => "Einsum: `1` is not a list of labels";
    }
}

#[test]
fn convolutions() {
    table! {
        "Conv" "f32[b,3,32,t]", "f32[8,3,3,3]", "f32[8]" { pads: vec![1, 1, 1, 1] } => "f32[b,8,32,t]";
        "Conv" "f32[1,3,t]", "f32[8,3,3]" {} => "f32[1,8,max(t - 2, 0)]";
        "Conv" "f32[1,3,t]", "f32[8,3,3]" { strides: vec![2] } => "f32[1,8,floordiv(t - 3, 2) + 1]";
        "Conv" "f32[1,3,10]", "f32[8,3,3]" { strides: vec![2], dilations: vec![2] } => "f32[1,8,3]";
        "Conv" "f32[1,3,10]", "f32[8,3,3]" { auto_pad: "SAME_UPPER", strides: vec![3] } => "f32[1,8,4]";
        "Conv" "f32[1,3,10]", "f32[8,3,3]" { auto_pad: "VALID" } => "f32[1,8,8]";
        "Conv" "f32[1,6,10]", "f32[8,3,3]" { group: 2 } => "f32[1,8,8]";
        "Conv" "f32[1,6,10]", "f32[7,3,3]" { group: 2 } => "Conv: 7 channels in 2 groups";
        "Conv" "f32[1,4,10]", "f32[8,3,3]" {} => "Conv: f32[1,4,10] and f32[8,3,3] do not fit with 1 groups";
        "Conv" "f32[1,3,2]", "f32[8,3,3]" {} => "Conv: a window of 3 does not fit 2 padded by 0 and 0";
        "Conv" "f32[1,3,9]", "f32[8,3,3]", "f32[7]" {} => "Conv: input 2 is f32[7], there are 8 channels";
        "Conv" "f32[1,3,9]", "f32[8,3,3]" { strides: vec![0] } => "Conv: `strides` must be positive";
        "Conv" "f32[1,3,9]", "f32[8,3,3]" { pads: vec![1] } => "Conv: `pads` has 1 entries, not 2";
        "Conv" "f32[1,3,9]", "f32[8,3,3]" { kernel_shape: vec![4] } => "Conv: `kernel_shape` is [4], the kernel f32[8,3,3]";
        "Conv" "f32[1,3,9]", "f32[8,3,3]" { pads: vec![1, 1], auto_pad: "VALID" } => "Conv: `pads` and `auto_pad` are both given";
        "ConvInteger" "u8[b,3,9]", "i8[8,3,3]", "u8[]" {} => "i32[b,8,7]";
        "ConvTranspose" "f32[b,3,t]", "f32[3,4,5]" { strides: vec![2], group: 1 } => "f32[b,4,2*t + 3]";
        "ConvTranspose" "f32[1,4,5]", "f32[4,2,3]", "f32[4]" { group: 2, pads: vec![1, 1], strides: vec![2], output_padding: vec![1] } => "f32[1,4,10]";
        "ConvTranspose" "f32[1,4,t]", "f32[4,2,3]" { auto_pad: "SAME_UPPER", strides: vec![2] } => "f32[1,2,2*t]";
        "ConvTranspose" "f32[1,4,t]", "f32[4,2,1]" { auto_pad: "SAME_UPPER", strides: vec![3] } => "f32[1,2,3*t - 2]";
        "ConvTranspose" "f32[1,4,5]", "f32[4,2,3]" { auto_pad: "SAME_UPPER", strides: vec![2], output_padding: vec![1] } => "ConvTranspose: `output_padding` with `auto_pad`";
        "ConvTranspose" "f32[1,4,1]", "f32[4,2,2]" { pads: vec![1, 1] } => "f32[1,2,0]";
        "ConvTranspose" "f32[1,4,1]", "f32[4,2,3]" { pads: vec![2, 2] } => "ConvTranspose: the result has the size -1";
        "ConvTranspose" "f32[1,4,5]", "f32[4,2,3]" { output_shape: vec![11], strides: vec![2] } => "f32[1,2,11]";
        "ConvTranspose" "f32[1,4,5]", "f32[3,2,3]" {} => "ConvTranspose: f32[1,4,5] and f32[3,2,3] do not fit with 1 groups";
    }
}

#[test]
fn fourier_transforms() {
    table! {
        "DFT" "f32[b,16,1]" {} => "f32[b,16,2]";
        "DFT" "f32[b,16,2]" { inverse: true } => "f32[b,16,2]";
        "DFT" "f32[b,t,1]", "-", "1" { onesided: true } => "f32[b,floordiv(t, 2) + 1,2]";
        "DFT" "f32[b,16,1]", "10", "-2" { onesided: true } => "f32[b,6,2]";
        "DFT" "f32[b,9,2]" { onesided: true, inverse: true } => "f32[b,16,1]";
        "DFT" "f32[b,9,2]" { onesided: true } => "DFT: `onesided` needs a real signal";
        "DFT" "f32[b,9,3]" {} => "DFT: the last size is 3, not 1 or 2";
        "DFT" "f32[b,9,2]", "-", "2" {} => "DFT: the last axis holds the parts of complex numbers";
    }
}
