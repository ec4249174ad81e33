use tensor::DType;

use super::table;

#[test]
fn poolings() {
    table! {
        "MaxPool" "f32[b,3,32,t]" { kernel_shape: vec![2, 2], strides: vec![2, 2] } => "f32[b,3,16,floordiv(t, 2)]";
        "MaxPool" "f32[b,3,9]" { kernel_shape: vec![2], strides: vec![2], ceil_mode: true } => "f32[b,3,5]; i64[b,3,5]";
        "AveragePool" "f32[1,1,6]" { kernel_shape: vec![1], strides: vec![2], ceil_mode: true, pads: vec![0, 1] } => "f32[1,1,3]";
        "AveragePool" "f32[1,1,t]" { kernel_shape: vec![3], strides: vec![2], ceil_mode: true } => "f32[1,1,floordiv(t, 2)]";
        "MaxPool" "f32[1,1,1]" { kernel_shape: vec![2], strides: vec![2], ceil_mode: true } => "f32[1,1,1]";
        "MaxPool" "f32[1,1,t]" { kernel_shape: vec![3], strides: vec![3], pads: vec![1, 2], ceil_mode: true } => "f32[1,1,floordiv(t, 3) + 1]";
        "LpPool" "f32[1,1,9]" { kernel_shape: vec![3], dilations: vec![2] } => "f32[1,1,5]";
        "MaxPool" "f32[1,1,9,t]" { kernel_shape: vec![3, 4], dilations: vec![3, 2] } => "f32[1,1,3,max(t - 6, 0)]; i64[1,1,3,max(t - 6, 0)]";
        "AveragePool" "f32[1,1,t]" { kernel_shape: vec![3], strides: vec![2], auto_pad: "SAME_LOWER" } => "f32[1,1,floordiv(t + 1, 2)]";
        "MaxPool" "f32[1,1,9]" {} => "MaxPool: attribute `kernel_shape` is missing";
        "MaxPool" "f32[1,1,9]" { kernel_shape: vec![3, 3] } => "MaxPool: `kernel_shape` has 2 entries, not 1";
        "MaxPool" "f32[1,1,9]" { kernel_shape: vec![3], auto_pad: "VALID", ceil_mode: true } => "MaxPool: `ceil_mode` with `auto_pad` VALID";
        "GlobalAveragePool" "f32[b,3,t,4]" {} => "f32[b,3,1,1]";
        "GlobalMaxPool" "f32[3]" {} => "GlobalMaxPool: input 0 is f32[3], but its rank must be at least 2";
    }
}

#[test]
fn normalizations() {
    table! {
        "BatchNormalization" "f16[b,3,t]", "f32[3]", "f32[3]", "f32[3]", "f32[3]" {} => "f16[b,3,t]";
        "BatchNormalization" "f32[b,3]", "f32[3]", "f32[3]", "f64[3]", "f64[3]" { training_mode: true } => "f32[b,3]; f64[3]; f64[3]";
        "BatchNormalization" "f32[b,3]", "f32[4]", "f32[3]", "f32[3]", "f32[3]" {} => "BatchNormalization: input 1 is f32[4], input 0 is f32[b,3]";
        "BatchNormalization" "f32[b,3]", "f32[3]", "f32[3]", "f32[3]", "f32[3]" { training_mode: true } => "BatchNormalization: `training_mode` has three results, inference has one";
        "LayerNormalization" "f16[b,t,8]", "f16[8]", "f16[8]" {} => "f16[b,t,8]";
        "LayerNormalization" "f16[b,t,8]", "f16[t,8]" { axis: 1 } => "f16[b,t,8]; f32[b,1,1]; f32[b,1,1]";
        "LayerNormalization" "f32[b,8]", "f32[4]" {} => "LayerNormalization: input 1 is f32[4], which does not broadcast to [b,8]";
        "RMSNormalization" "f16[b,8]", "f32[8]" {} => "f32[b,8]";
        "RMSNormalization" "f16[b,8]", "f32[8]" { axis: 2 } => "RMSNormalization: axis 2 is out of range for rank 2";
        "InstanceNormalization" "f32[b,3,t]", "f32[3]", "f32[3]" {} => "f32[b,3,t]";
        "InstanceNormalization" "f32[b,3,t]", "f64[3]", "f32[3]" {} => "InstanceNormalization: operands are f32[b,3,t] and f64[3]";
        "GroupNormalization" "f32[b,6,t]", "f32[6]", "f32[6]" { num_groups: 3 } => "f32[b,6,t]";
        "GroupNormalization" "f32[b,6,t]", "f32[6]", "f32[6]" { num_groups: 1 } => "f32[b,6,t]";
        "GroupNormalization" "f32[b,6,t]", "f32[6]", "f32[6]" { num_groups: 0 } => "GroupNormalization: 6 channels in 0 groups";
        "GroupNormalization" "f32[b,6,t]", "f32[6]", "f32[6]" { num_groups: 4 } => "GroupNormalization: 6 channels in 4 groups";
        "LpNormalization" "f32[b,6]" { axis: 1 } => "f32[b,6]";
        "MeanVarianceNormalization" "f32[b,6,2,2]" {} => "f32[b,6,2,2]";
    }
}

#[test]
fn attentions() {
    table! {
        "Attention" "f32[b,8,t,64]", "f32[b,2,s,64]", "f32[b,2,s,32]" {} => "f32[b,8,t,32]";
        "Attention" "f32[b,t,512]", "f32[b,s,128]", "f32[b,s,64]", "bool[t,s]" { q_num_heads: 8, kv_num_heads: 2 } => "f32[b,t,256]";
        "Attention" "f32[b,8,1,64]", "f32[b,8,1,64]", "f32[b,8,1,64]", "-", "f32[b,8,p,64]", "f32[b,8,p,64]" {} => "f32[b,8,1,64]; f32[b,8,p + 1,64]; f32[b,8,p + 1,64]; f32[b,8,1,p + 1]";
        "Attention" "f32[b,8,1,64]", "f32[b,8,1,64]", "f32[b,8,1,64]", "-", "f32[b,8,p,64]", "f32[b,8,q,64]" {} => "Attention: the cache is f32[b,8,p,64] and f32[b,8,q,64]";
        "Attention" "f32[b,8,1,64]", "f32[b,8,1,64]", "f32[b,8,1,64]", "-", "f32[b,4,p,64]", "f32[b,8,p,64]" {} => "Attention: the cache is f32[b,4,p,64] and f32[b,8,p,64]";
        "Attention" "f32[b,8,1,64]", "f32[b,8,1,64]", "f32[b,8,1,64]", "-", "f32[b,8,p,64]", "f32[b,8,p,32]" {} => "Attention: the cache is f32[b,8,p,64] and f32[b,8,p,32]";
        "Attention" "f32[b,8,1,64]", "f32[b,8,1,64]", "f32[b,8,1,64]", "-", "f32[c,8,p,64]", "f32[b,8,p,64]" {} => "Attention: the cache is f32[c,8,p,64] and f32[b,8,p,64]";
        "Attention" "f32[b,8,1,64]", "f32[b,8,1,64]", "f32[b,8,1,64]", "-", "f32[b,p,64]", "f32[b,p,64]" {} => "Attention: the cache is f32[b,p,64] and f32[b,p,64]";
        "Attention" "f32[b,8,1,64]", "f32[b,8,1,64]", "f32[b,8,1,64]", "-", "f32[b,8,p,64]" {} => "Attention: inputs 4 and 5 must be given together";
        "Attention" "f32[b,8,t,64]", "f32[b,3,s,64]", "f32[b,3,s,64]" {} => "Attention: f32[b,8,t,64], f32[b,3,s,64] and f32[b,3,s,64] do not fit";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,64]", "f32[b,8,s,64]", "i32[t,s]" {} => "Attention: the mask is i32[t,s], but must be bool or f32";
        "Attention" "f32[b,t,512]", "f32[b,t,512]", "f32[b,t,512]" {} => "Attention: attribute `q_num_heads` is missing";
        "Attention" "f32[b,8,t,64]", "f32[b,s,512]", "f32[b,s,512]" { kv_num_heads: 8 } => "Attention: f32[b,8,t,64], f32[b,s,512] and f32[b,s,512] do not fit";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,64]", "f32[b,s,512]" { kv_num_heads: 8 } => "Attention: f32[b,8,t,64], f32[b,8,s,64] and f32[b,s,512] do not fit";
        "Attention" "f32[b,8,t,64]", "f32[c,8,s,64]", "f32[b,8,s,64]" {} => "Attention: f32[b,8,t,64], f32[c,8,s,64] and f32[b,8,s,64] do not fit";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,64]", "f32[c,8,s,64]" {} => "Attention: f32[b,8,t,64], f32[b,8,s,64] and f32[c,8,s,64] do not fit";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,64]", "f32[b,4,s,64]" {} => "Attention: f32[b,8,t,64], f32[b,8,s,64] and f32[b,4,s,64] do not fit";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,64]", "f32[b,8,r,64]" {} => "Attention: f32[b,8,t,64], f32[b,8,s,64] and f32[b,8,r,64] do not fit";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,32]", "f32[b,8,s,64]" {} => "Attention: f32[b,8,t,64], f32[b,8,s,32] and f32[b,8,s,64] do not fit";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,64]", "f32[b,8,s,64]", "bool[1,1,1,t,s]" {} => "Attention: the mask is bool[1,1,1,t,s], but its rank must be 1 to 4";
        "Attention" "f32[b,8,t,64]", "f32[b,8,5,64]", "f32[b,8,5,64]", "bool[t,6]" {} => "Attention: the mask is bool[t,6] for 5 keys";
        "Attention" "f32[b,8,t,64]", "f32[b,8,5,64]", "f32[b,8,5,64]", "bool[t,5]" {} => "f32[b,8,t,64]";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,64]", "f32[b,8,s,64]", "-", "-", "-", "i64[b]" {} => "f32[b,8,t,64]";
        "Attention" "f32[b,8,t,64]", "f32[b,8,s,64]", "f32[b,8,s,64]", "-", "-", "-", "i64[t]" {} => "Attention: input 6 is i64[t] for f32[b,8,s,64]";
        "Attention" "f32[b,8,1,64]", "f32[b,8,1,64]", "f32[b,8,1,64]", "-", "f32[b,8,p,64]", "f32[b,8,p,64]", "i64[b]" {} => "Attention: input 6 is i64[b] for f32[b,8,1,64]";
        "RotaryEmbedding" "f32[b,8,t,64]", "f32[100,32]", "f32[100,32]", "i64[b,t]" {} => "f32[b,8,t,64]";
        "RotaryEmbedding" "f32[b,t,512]", "f32[b,t,32]", "f32[b,t,32]" { num_heads: 8 } => "f32[b,t,512]";
        "RotaryEmbedding" "f32[b,8,t,64]", "f32[100,32]", "f32[100,32]" {} => "RotaryEmbedding: input 1 is f32[100,32], but its rank must be 3";
    }
}

#[test]
fn recurrent_layers() {
    table! {
        "LSTM" "f32[t,b,5]", "f32[1,16,5]", "f32[1,16,4]", "f32[1,32]" { hidden_size: 4 } => "f32[t,1,b,4]; f32[1,b,4]; f32[1,b,4]";
        "GRU" "f32[t,b,5]", "f32[2,12,5]", "f32[2,12,4]" { direction: "bidirectional" } => "f32[t,2,b,4]; f32[2,b,4]";
        "RNN" "f32[b,t,5]", "f32[1,4,5]", "f32[1,4,4]", "-", "i32[b]", "f32[b,1,4]" { layout: 1 } => "f32[b,t,1,4]; f32[b,1,4]";
        "GRU" "f32[t,b,5]", "f32[1,16,5]", "f32[1,16,4]" {} => "GRU: input 1 is f32[1,16,5], but its shape must be [1,12,5]";
        "RNN" "f32[t,b,5]", "f32[1,4,5]", "f32[1,4,4]", "-", "-", "f32[1,3,4]" {} => "RNN: input 5 is f32[1,3,4], but its shape must be [1,b,4]";
        "RNN" "f32[t,b,5]", "f32[1,4,5]", "f64[1,4,4]" {} => "RNN: operands are f32[t,b,5] and f64[1,4,4]";
        "RNN" "f32[t,b,5]", "f32[1,4,5]", "f32[1,4,4]" { hidden_size: 5 } => "RNN: `hidden_size` does not fit input 2, f32[1,4,4]";
    }
}

#[test]
fn quantization() {
    table! {
        "QuantizeLinear" "f32[b,3]", "f32[]", "i8[]" {} => "i8[b,3]";
        "QuantizeLinear" "f32[b,3]", "f32[]" {} => "u8[b,3]";
        "QuantizeLinear" "f32[b,3]", "f32[3]" { output_dtype: DType::I4 } => "i4[b,3]";
        "QuantizeLinear" "f32[b,3]", "f32[4]" {} => "QuantizeLinear: input 0 is f32[b,3], the scale f32[4]";
        "QuantizeLinear" "f32[b,3]", "f32[]", "i8[]" { output_dtype: DType::U8 } => "QuantizeLinear: the zero point is i8[], `output_dtype` u8";
        "QuantizeLinear" "f32[b,3]", "f32[]", "i8[1]" {} => "i8[b,3]";
        "QuantizeLinear" "f32[b,3]", "f32[]", "i8[]" { output_dtype: DType::I8 } => "i8[b,3]";
        "QuantizeLinear" "f32[b,3]", "f32[b,1]" {} => "QuantizeLinear: input 0 is f32[b,3], the scale f32[b,1]";
        "QuantizeLinear" "f32[b,3]", "f32[1,1,3]" { block_size: 2 } => "QuantizeLinear: input 0 is f32[b,3], the scale f32[1,1,3]";
        "QuantizeLinear" "f32[b,3]", "f32[3]", "i8[]" {} => "QuantizeLinear: the scale is f32[3], the zero point i8[]";
        "QuantizeLinear" "f32[b,3]", "f32[3]", "i8[4]" {} => "QuantizeLinear: the scale is f32[3], the zero point i8[4]";
        "DequantizeLinear" "u8[8]", "f16[2]" { block_size: 4, axis: 0 } => "f16[8]";
        "DequantizeLinear" "u8[b,3]", "f16[3]", "u8[3]" {} => "f16[b,3]";
        "DequantizeLinear" "u8[b,8]", "f16[b,2]" { block_size: 4, output_dtype: DType::F32 } => "f32[b,8]";
        "DequantizeLinear" "u8[b,3]", "f32[]", "i8[]" {} => "DequantizeLinear: operands are u8[b,3] and i8[]";
        "DynamicQuantizeLinear" "f32[b]" {} => "u8[b]; f32[]; u8[]";
    }
}
