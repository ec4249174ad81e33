//! Type inference: the element types and shapes of a node's results.
//!
//! Lowering infers types as it builds, so a rule never states one, and the driver can compare what
//! a rule built with what JAX expects. Operators mean what they mean in opsets 23 to 26. Which
//! element types an opset or a runtime accepts does not matter here: types are compared only if
//! they must agree for the result to have a type at all.

mod attention;
mod broadcast;
mod call;
mod content;
mod control_flow;
mod convolution;
mod einsum;
mod elementwise;
mod fourier;
mod indexing;
mod linear;
mod movement;
mod normalization;
mod pooling;
mod quantization;
mod recurrent;
mod reduction;
mod reshape;
mod resize;
mod shape;
mod slice;
#[cfg(test)]
mod tests;
mod window;

use std::ops::RangeInclusive;

use tensor::Type;

pub(crate) use call::Call;
pub(crate) use content::content;
pub use reshape::may_hold_as_many;
pub use slice::sliced;

use crate::{Op, Result};

/// How many operands and results an operator may have, and the function that infers its results.
type Rule = (RangeInclusive<usize>, RangeInclusive<usize>, fn(&Call<'_>) -> Result<Vec<Type>>);

const MANY: usize = usize::MAX;

/// Whether the types of an operator's results can be inferred. Otherwise the caller has to state
/// them.
pub fn is_inferred(op: &Op) -> bool {
    op.domain.is_empty() && rule(op.name).is_some()
}

/// The types of the results of `call`.
pub(crate) fn infer(call: &Call<'_>) -> Result<Vec<Type>> {
    if !call.op.domain.is_empty() {
        let domain = call.op.domain;
        return Err(call.error(format!("no type inference for operators of domain `{domain}`")));
    }
    let Some((operands, results, infer)) = rule(call.op.name) else {
        return Err(call.error("no type inference for this operator"));
    };
    if !operands.contains(&call.inputs.len()) {
        return Err(wrong_count(call, "operands", call.inputs.len(), &operands));
    }
    if !results.contains(&call.count) {
        return Err(wrong_count(call, "results", call.count, &results));
    }
    let mut types = infer(call)?;
    types.truncate(call.count);
    Ok(types)
}

fn wrong_count(
    call: &Call<'_>,
    what: &str,
    count: usize,
    range: &RangeInclusive<usize>,
) -> crate::Error {
    let (least, most) = (range.start(), range.end());
    let allowed = match most {
        _ if least == most => format!("{least}"),
        &MANY => format!("{least} or more"),
        _ => format!("{least} to {most}"),
    };
    call.error(format!("there are {count} {what}, not {allowed}"))
}

/// The operators that are supported.
#[rustfmt::skip]
fn rule(op: &str) -> Option<Rule> {
    Some(match op {
        "Abs" => (1..=1, 1..=1, elementwise::same),
        "Acos" => (1..=1, 1..=1, elementwise::same),
        "Acosh" => (1..=1, 1..=1, elementwise::same),
        "Add" => (2..=2, 1..=1, elementwise::binary),
        "And" => (2..=2, 1..=1, elementwise::logical),
        "ArgMax" => (1..=1, 1..=1, reduction::arg),
        "ArgMin" => (1..=1, 1..=1, reduction::arg),
        "Asin" => (1..=1, 1..=1, elementwise::same),
        "Asinh" => (1..=1, 1..=1, elementwise::same),
        "Atan" => (1..=1, 1..=1, elementwise::same),
        "Atanh" => (1..=1, 1..=1, elementwise::same),
        "Attention" => (3..=7, 1..=4, attention::attention),
        "AveragePool" => (1..=1, 1..=1, pooling::pool),
        "BatchNormalization" => (5..=5, 1..=3, normalization::batch),
        "BitCast" => (1..=1, 1..=1, elementwise::bit_cast),
        "BitShift" => (2..=2, 1..=1, elementwise::bit_shift),
        "BitwiseAnd" => (2..=2, 1..=1, elementwise::binary),
        "BitwiseNot" => (1..=1, 1..=1, elementwise::same),
        "BitwiseOr" => (2..=2, 1..=1, elementwise::binary),
        "BitwiseXor" => (2..=2, 1..=1, elementwise::binary),
        "Cast" => (1..=1, 1..=1, elementwise::cast),
        "CastLike" => (2..=2, 1..=1, elementwise::cast_like),
        "Ceil" => (1..=1, 1..=1, elementwise::same),
        "Celu" => (1..=1, 1..=1, elementwise::same),
        "Clip" => (1..=3, 1..=1, elementwise::clip),
        "Compress" => (2..=2, 1..=1, indexing::data_dependent),
        "Concat" => (1..=MANY, 1..=1, movement::concat),
        "Constant" => (0..=0, 1..=1, shape::constant),
        "ConstantOfShape" => (1..=1, 1..=1, shape::constant_of_shape),
        "Conv" => (2..=3, 1..=1, convolution::conv),
        "ConvInteger" => (2..=4, 1..=1, convolution::conv_integer),
        "ConvTranspose" => (2..=3, 1..=1, convolution::conv_transpose),
        "Cos" => (1..=1, 1..=1, elementwise::same),
        "Cosh" => (1..=1, 1..=1, elementwise::same),
        "CumProd" => (2..=2, 1..=1, elementwise::cumulative),
        "CumSum" => (2..=2, 1..=1, elementwise::cumulative),
        "DFT" => (1..=3, 1..=1, fourier::dft),
        "DepthToSpace" => (1..=1, 1..=1, reshape::depth_to_space),
        "DequantizeLinear" => (2..=3, 1..=1, quantization::dequantize),
        "Det" => (1..=1, 1..=1, reduction::det),
        "Div" => (2..=2, 1..=1, elementwise::binary),
        "DynamicQuantizeLinear" => (1..=1, 3..=3, quantization::quantize_dynamically),
        "Einsum" => (1..=MANY, 1..=1, einsum::einsum),
        "Elu" => (1..=1, 1..=1, elementwise::same),
        "Equal" => (2..=2, 1..=1, elementwise::compare),
        "Erf" => (1..=1, 1..=1, elementwise::same),
        "Exp" => (1..=1, 1..=1, elementwise::same),
        "Expand" => (2..=2, 1..=1, movement::expand),
        "EyeLike" => (1..=1, 1..=1, indexing::eye_like),
        "Flatten" => (1..=1, 1..=1, movement::flatten),
        "Floor" => (1..=1, 1..=1, elementwise::same),
        "GRU" => (3..=6, 1..=2, recurrent::gru),
        "Gather" => (2..=2, 1..=1, indexing::gather),
        "GatherElements" => (2..=2, 1..=1, indexing::gather_elements),
        "GatherND" => (2..=2, 1..=1, indexing::gather_nd),
        "Gelu" => (1..=1, 1..=1, elementwise::gelu),
        "Gemm" => (2..=3, 1..=1, linear::gemm),
        "GlobalAveragePool" => (1..=1, 1..=1, reduction::global_pool),
        "GlobalLpPool" => (1..=1, 1..=1, reduction::global_pool),
        "GlobalMaxPool" => (1..=1, 1..=1, reduction::global_pool),
        "Greater" => (2..=2, 1..=1, elementwise::compare),
        "GreaterOrEqual" => (2..=2, 1..=1, elementwise::compare),
        "GroupNormalization" => (3..=3, 1..=1, normalization::group),
        "HardSigmoid" => (1..=1, 1..=1, elementwise::same),
        "HardSwish" => (1..=1, 1..=1, elementwise::same),
        "Hardmax" => (1..=1, 1..=1, elementwise::along_axis),
        "Identity" => (1..=1, 1..=1, elementwise::same),
        "If" => (1..=1, 1..=MANY, control_flow::if_),
        "InstanceNormalization" => (3..=3, 1..=1, normalization::per_channel_affine),
        "IsInf" => (1..=1, 1..=1, elementwise::test),
        "IsNaN" => (1..=1, 1..=1, elementwise::test),
        "LSTM" => (3..=8, 1..=3, recurrent::lstm),
        "LayerNormalization" => (2..=3, 1..=3, normalization::layer),
        "LeakyRelu" => (1..=1, 1..=1, elementwise::same),
        "Less" => (2..=2, 1..=1, elementwise::compare),
        "LessOrEqual" => (2..=2, 1..=1, elementwise::compare),
        "Log" => (1..=1, 1..=1, elementwise::same),
        "LogSoftmax" => (1..=1, 1..=1, elementwise::along_axis),
        "Loop" => (2..=MANY, 1..=MANY, control_flow::loop_),
        "LpNormalization" => (1..=1, 1..=1, elementwise::along_axis),
        "LpPool" => (1..=1, 1..=1, pooling::pool),
        "MatMul" => (2..=2, 1..=1, linear::matmul),
        "MatMulInteger" => (2..=4, 1..=1, linear::matmul_integer),
        "Max" => (1..=MANY, 1..=1, elementwise::variadic),
        "MaxPool" => (1..=1, 1..=2, pooling::max_pool),
        "Mean" => (1..=MANY, 1..=1, elementwise::variadic),
        "MeanVarianceNormalization" => (1..=1, 1..=1, normalization::mean_variance),
        "Min" => (1..=MANY, 1..=1, elementwise::variadic),
        "Mish" => (1..=1, 1..=1, elementwise::same),
        "Mod" => (2..=2, 1..=1, elementwise::modulo),
        "Mul" => (2..=2, 1..=1, elementwise::binary),
        "Neg" => (1..=1, 1..=1, elementwise::same),
        "NonZero" => (1..=1, 1..=1, indexing::data_dependent),
        "Not" => (1..=1, 1..=1, elementwise::not),
        "OneHot" => (3..=3, 1..=1, indexing::one_hot),
        "Or" => (2..=2, 1..=1, elementwise::logical),
        "PRelu" => (2..=2, 1..=1, elementwise::prelu),
        "Pad" => (2..=4, 1..=1, movement::pad),
        "Pow" => (2..=2, 1..=1, elementwise::power),
        "QuantizeLinear" => (2..=3, 1..=1, quantization::quantize),
        "RMSNormalization" => (2..=2, 1..=1, normalization::rms),
        "RNN" => (3..=6, 1..=2, recurrent::rnn),
        "Range" => (3..=3, 1..=1, shape::range),
        "Reciprocal" => (1..=1, 1..=1, elementwise::same),
        "ReduceL1" => (1..=2, 1..=1, reduction::reduce),
        "ReduceL2" => (1..=2, 1..=1, reduction::reduce),
        "ReduceLogSum" => (1..=2, 1..=1, reduction::reduce),
        "ReduceLogSumExp" => (1..=2, 1..=1, reduction::reduce),
        "ReduceMax" => (1..=2, 1..=1, reduction::reduce),
        "ReduceMean" => (1..=2, 1..=1, reduction::reduce),
        "ReduceMin" => (1..=2, 1..=1, reduction::reduce),
        "ReduceProd" => (1..=2, 1..=1, reduction::reduce),
        "ReduceSum" => (1..=2, 1..=1, reduction::reduce),
        "ReduceSumSquare" => (1..=2, 1..=1, reduction::reduce),
        "Relu" => (1..=1, 1..=1, elementwise::same),
        "Reshape" => (2..=2, 1..=1, reshape::reshape),
        "Resize" => (1..=4, 1..=1, resize::resize),
        "ReverseSequence" => (2..=2, 1..=1, movement::reverse_sequence),
        "RotaryEmbedding" => (3..=4, 1..=1, attention::rotary_embedding),
        "Round" => (1..=1, 1..=1, elementwise::same),
        "Scan" => (1..=MANY, 1..=MANY, control_flow::scan),
        "ScatterElements" => (3..=3, 1..=1, indexing::scatter_elements),
        "ScatterND" => (3..=3, 1..=1, indexing::scatter_nd),
        "Selu" => (1..=1, 1..=1, elementwise::same),
        "Shape" => (1..=1, 1..=1, shape::shape),
        "Sigmoid" => (1..=1, 1..=1, elementwise::same),
        "Sign" => (1..=1, 1..=1, elementwise::same),
        "Sin" => (1..=1, 1..=1, elementwise::same),
        "Sinh" => (1..=1, 1..=1, elementwise::same),
        "Size" => (1..=1, 1..=1, shape::size),
        "Slice" => (3..=5, 1..=1, slice::slice),
        "Softmax" => (1..=1, 1..=1, elementwise::along_axis),
        "Softplus" => (1..=1, 1..=1, elementwise::same),
        "Softsign" => (1..=1, 1..=1, elementwise::same),
        "SpaceToDepth" => (1..=1, 1..=1, reshape::space_to_depth),
        "Split" => (1..=2, 1..=MANY, movement::split),
        "Sqrt" => (1..=1, 1..=1, elementwise::same),
        "Squeeze" => (1..=2, 1..=1, movement::squeeze),
        "Sub" => (2..=2, 1..=1, elementwise::binary),
        "Sum" => (1..=MANY, 1..=1, elementwise::variadic),
        "Swish" => (1..=1, 1..=1, elementwise::same),
        "Tan" => (1..=1, 1..=1, elementwise::same),
        "Tanh" => (1..=1, 1..=1, elementwise::same),
        "TensorScatter" => (2..=3, 1..=1, indexing::tensor_scatter),
        "ThresholdedRelu" => (1..=1, 1..=1, elementwise::same),
        "Tile" => (2..=2, 1..=1, movement::tile),
        "TopK" => (2..=2, 1..=2, indexing::top_k),
        "Transpose" => (1..=1, 1..=1, movement::transpose),
        "Trilu" => (1..=2, 1..=1, elementwise::trilu),
        "Unique" => (1..=1, 1..=4, indexing::data_dependent),
        "Unsqueeze" => (2..=2, 1..=1, movement::unsqueeze),
        "Where" => (3..=3, 1..=1, elementwise::select),
        "Xor" => (2..=2, 1..=1, elementwise::logical),
        _ => return None,
    })
}
