//! What ONNX's own operators are worth in onnxruntime 1.31.1, made by
//! `python scripts/measure_operators.py`.

use tensor::DType::{self, BF16, F16, F32, F64};

/// What was measured of an operator, for one element type.
#[derive(Debug)]
struct Row {
    op: &'static str,
    /// The attribute that tells its forms apart; empty if there is none.
    variant: &'static str,
    dtype: DType,
    /// How many times as fast one node is, on one thread.
    one: f64,
    /// On all threads.
    all: f64,
    /// How many times as large its error is.
    error: f64,
    /// Whether NaN and infinities are where JAX has them.
    agrees: bool,
}

/// Times differ by as much from run to run.
const NOISE: f64 = 0.1;

/// As many times as large as that of the elementary form may an error be.
const MOST_ERROR: f64 = 1.2;

/// Whether `op` as one node is as exact as what it is made of, and at least as fast.
pub(super) fn is_better(op: &str, variant: &str, dtype: DType) -> bool {
    let key = (op, variant, dtype);
    let row = TABLE.iter().find(|row| (row.op, row.variant, row.dtype) == key);
    row.is_some_and(|row| {
        let fast = row.one.min(row.all) >= 1.0 - NOISE;
        row.agrees && row.error <= MOST_ERROR && fast
    })
}

const fn row(
    op: &'static str,
    variant: &'static str,
    dtype: DType,
    one: f64,
    all: f64,
    error: f64,
    agrees: bool,
) -> Row {
    Row { op, variant, dtype, one, all, error, agrees }
}

#[rustfmt::skip]
static TABLE: &[Row] = &[
    row("Celu", "", F16, 16.03, 43.44, 1.00, true),
    row("Celu", "", BF16, 2.91, 2.76, 1.00, true),
    row("Celu", "", F32, 2.44, 2.51, 0.94, true),
    row("Clip", "", F16, 2.09, 1.51, 1.00, true),
    row("Clip", "", BF16, 1.37, 1.57, 1.00, true),
    row("Clip", "", F32, 1.67, 1.60, 1.00, true),
    row("Clip", "", F64, 1.78, 1.77, 1.00, true),
    row("Elu", "", F16, 2.46, 2.61, 1.00, true),
    row("Elu", "", BF16, 2.45, 2.43, 1.00, true),
    row("Elu", "", F32, 2.73, 2.79, 0.91, true),
    row("Gelu", "", F16, 0.85, 1.03, 0.99, true),
    row("Gelu", "", BF16, 2.55, 2.62, 0.93, true),
    row("Gelu", "", F32, 1.58, 1.39, 1.00, true),
    row("Gelu", "tanh", F16, 0.86, 0.88, 0.99, true),
    row("Gelu", "tanh", BF16, 3.97, 3.65, 0.83, true),
    row("Gelu", "tanh", F32, 2.48, 2.27, 1.00, true),
    row("Gelu", "tanh", F64, 1.01, 1.21, 6539975.50, true),
    row("HardSigmoid", "", F16, 44.05, 17.50, 0.50, true),
    row("HardSigmoid", "", BF16, 2.40, 2.38, 0.50, true),
    row("HardSigmoid", "", F32, 2.40, 2.41, 0.67, true),
    row("HardSwish", "", F16, 10.98, 12.46, 0.52, true),
    row("HardSwish", "", BF16, 2.81, 2.59, 0.46, true),
    row("HardSwish", "", F32, 1.82, 1.87, 0.81, true),
    row("LayerNormalization", "", F16, 2.94, 2.40, 1.00, true),
    row("LayerNormalization", "", BF16, 0.69, 0.76, 0.27, true),
    row("LayerNormalization", "", F32, 2.23, 2.01, 1.04, true),
    row("LayerNormalization", "", F64, 0.34, 0.33, 331.00, true),
    row("LeakyRelu", "", F16, 2.20, 2.21, 1.00, true),
    row("LeakyRelu", "", BF16, 1.78, 1.79, 1.00, true),
    row("LeakyRelu", "", F32, 3.04, 2.84, 1.00, true),
    row("LogSoftmax", "", F16, 1.00, 1.01, 1.00, true),
    row("LogSoftmax", "", BF16, 1.81, 2.02, 0.50, true),
    row("LogSoftmax", "", F32, 1.78, 1.89, 1.00, true),
    row("LogSoftmax", "", F64, 1.02, 1.02, 1.00, false),
    row("Mish", "", F16, 0.98, 1.02, 1.00, true),
    row("Mish", "", BF16, 1.01, 1.03, 0.83, true),
    row("Mish", "", F32, 0.61, 0.80, 1.00, true),
    row("RMSNormalization", "", F16, 3.21, 2.79, 1.00, true),
    row("RMSNormalization", "", BF16, 1.99, 2.08, 0.32, true),
    row("RMSNormalization", "", F32, 2.48, 2.37, 1.00, true),
    row("RMSNormalization", "", F64, 0.81, 0.64, 4.67, true),
    row("ReduceL2", "", F16, 0.50, 0.53, 1.00, false),
    row("ReduceL2", "", BF16, 1.16, 0.99, 0.69, true),
    row("ReduceL2", "", F32, 0.64, 0.66, 6.23, true),
    row("ReduceL2", "", F64, 0.70, 1.15, 4.00, true),
    row("ReduceLogSumExp", "", F16, 0.31, 0.43, 1.00, true),
    row("ReduceLogSumExp", "", BF16, 0.64, 0.65, 0.50, true),
    row("ReduceLogSumExp", "", F32, 0.36, 0.37, 2.54, true),
    row("ReduceLogSumExp", "", F64, 1.02, 1.01, 1.00, true),
    row("ReduceMean", "", F16, 1.04, 1.03, 1.00, true),
    row("ReduceMean", "", BF16, 1.04, 1.14, 1.00, true),
    row("ReduceMean", "", F32, 1.09, 1.08, 1.00, true),
    row("ReduceMean", "", F64, 1.06, 1.05, 1.00, true),
    row("ReduceSumSquare", "", F16, 0.99, 1.00, 1.00, true),
    row("ReduceSumSquare", "", BF16, 1.01, 1.00, 1.00, true),
    row("ReduceSumSquare", "", F32, 0.49, 0.50, 7.43, true),
    row("ReduceSumSquare", "", F64, 0.69, 0.69, 3.33, true),
    row("Relu", "", F16, 9.77, 9.41, 1.00, true),
    row("Relu", "", BF16, 1.06, 1.04, 1.00, true),
    row("Relu", "", F32, 1.11, 1.08, 1.00, true),
    row("Relu", "", F64, 1.09, 1.12, 1.00, true),
    row("Selu", "", F16, 2.56, 2.57, 0.83, true),
    row("Selu", "", BF16, 4.03, 3.16, 0.53, true),
    row("Selu", "", F32, 2.61, 2.88, 1.00, true),
    row("Softmax", "", F16, 1.01, 1.00, 1.00, true),
    row("Softmax", "", BF16, 2.09, 2.07, 0.74, true),
    row("Softmax", "", F32, 2.03, 2.10, 1.00, true),
    row("Softmax", "", F64, 1.03, 1.01, 1.50, true),
    row("Softplus", "", F16, 0.96, 0.98, 1.00, true),
    row("Softplus", "", BF16, 0.80, 0.37, 1.00, true),
    row("Softplus", "", F32, 0.58, 1.29, 1.00, true),
    row("Softsign", "", F16, 1.55, 1.54, 1.00, true),
    row("Softsign", "", BF16, 1.94, 2.02, 0.43, true),
    row("Softsign", "", F32, 1.85, 1.64, 1.20, true),
];
