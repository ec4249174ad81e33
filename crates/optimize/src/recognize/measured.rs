//! The speed and accuracy of ONNX's own operators in onnxruntime 1.31.1, relative to elementary
//! operators. Written by `python scripts/measure_operators.py`.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;
use tensor::DType::{self, BF16, F16, F32, F64};

/// The measurements of an operator for one element type.
#[derive(Debug)]
struct Row {
    op: &'static str,
    /// The attribute that distinguishes the forms of the operator, or an empty string.
    variant: &'static str,
    dtype: DType,
    /// The speed-up of one node on one thread.
    one: f64,
    /// The speed-up on all threads.
    all: f64,
    /// The ratio of its error to that of the elementary form.
    error: f64,
    /// The same ratio on hostile numbers: large means, tiny spreads, long rows.
    hostile: f64,
    /// `true` if NaN and infinities occur in the same elements as in JAX.
    agrees: bool,
}

/// The relative variation of timings between runs.
const NOISE: f64 = 0.1;

/// The largest acceptable ratio of errors.
const MOST_ERROR: f64 = 1.2;

/// The largest acceptable ratio on hostile numbers, where a single number decides.
const MOST_HOSTILE_ERROR: f64 = 4.0;

/// Returns `true` if `op` as one node is as exact on hostile numbers as the elementary form.
pub(super) fn is_exact(op: &str, variant: &str, dtype: DType) -> bool {
    let row = rows(op).find(|row| row.variant == variant && row.dtype == dtype);
    row.is_some_and(|row| row.hostile <= MOST_HOSTILE_ERROR)
}

/// Returns `true` if `op` as one node is as exact as the elementary form and at least as fast.
/// Unless all numbers are `finite`, NaN and infinities count as well. onnxruntime's CPU provider
/// computes small floats in float32 between casts, so the timings of float32 apply to them.
pub(super) fn is_better(op: &str, variant: &str, dtype: DType, finite: bool) -> bool {
    let row = |dtype| rows(op).find(|row| row.variant == variant && row.dtype == dtype);
    let timed = if matches!(dtype, F16 | BF16) { F32 } else { dtype };
    let (Some(exact), Some(fast)) = (row(dtype), row(timed)) else { return false };
    let agrees = exact.agrees || finite;
    let is_exact = exact.error <= MOST_ERROR && is_exact(op, variant, dtype);
    agrees && is_exact && fast.one.min(fast.all) >= 1.0 - NOISE
}

/// Returns `true` if [`is_better`] holds for any form of `op`.
pub(super) fn may_be_better(op: &str, dtype: DType, finite: bool) -> bool {
    static BETTER: LazyLock<FxHashSet<(&str, DType, bool)>> = LazyLock::new(|| {
        let rows = TABLE.iter().flat_map(|row| [(row, false), (row, true)]);
        let better =
            rows.filter(|(row, finite)| is_better(row.op, row.variant, row.dtype, *finite));
        better.map(|(row, finite)| (row.op, row.dtype, finite)).collect()
    });
    BETTER.contains(&(op, dtype, finite))
}

/// Returns the measurements of `op`.
fn rows(op: &str) -> impl Iterator<Item = &'static Row> {
    let first = TABLE.partition_point(|row| row.op < op);
    TABLE[first..].iter().take_while(move |row| row.op == op)
}

#[cfg(test)]
#[test]
fn rows_are_sorted_by_operator() {
    assert!(TABLE.is_sorted_by_key(|row| row.op));
}

const fn row(
    op: &'static str,
    variant: &'static str,
    dtype: DType,
    one: f64,
    all: f64,
    [error, hostile]: [f64; 2],
    agrees: bool,
) -> Row {
    Row { op, variant, dtype, one, all, error, hostile, agrees }
}

#[rustfmt::skip]
static TABLE: &[Row] = &[
    row("Attention", "", F16, 0.88, 0.80, [1.49, 1000000000.00], false),
    row("Attention", "", BF16, 1.72, 1.93, [0.62, 1.00], false),
    row("Attention", "", F32, 1.28, 1.23, [1.00, 1.00], false),
    row("Attention", "", F64, 0.73, 1.10, [90161040.25, 35227189.00], false),
    row("Celu", "", F16, 15.51, 47.81, [1.00, 1.00], true),
    row("Celu", "", BF16, 2.49, 2.73, [1.00, 1.00], true),
    row("Celu", "", F32, 2.49, 2.42, [0.94, 1.00], true),
    row("Clip", "", F16, 1.51, 1.47, [1.00, 1.00], true),
    row("Clip", "", BF16, 1.49, 1.55, [1.00, 1.00], true),
    row("Clip", "", F32, 1.68, 1.78, [1.00, 1.00], true),
    row("Clip", "", F64, 2.05, 1.81, [1.00, 1.00], true),
    row("DepthToSpace", "", F16, 1.72, 1.52, [1.00, 1.00], true),
    row("DepthToSpace", "", F32, 2.31, 2.37, [1.00, 1.00], true),
    row("DepthToSpace", "", F64, 2.80, 2.67, [1.00, 1.00], true),
    row("DepthToSpace", "CRD", F16, 2.08, 2.10, [1.00, 1.00], true),
    row("DepthToSpace", "CRD", F32, 2.22, 2.31, [1.00, 1.00], true),
    row("DepthToSpace", "CRD", F64, 1.71, 1.72, [1.00, 1.00], true),
    row("Elu", "", F16, 2.49, 2.41, [1.00, 1.00], true),
    row("Elu", "", BF16, 2.77, 2.46, [1.00, 1.00], true),
    row("Elu", "", F32, 2.78, 2.60, [0.91, 1.00], true),
    row("GRU", "", F16, 1.29, 1.40, [1.00, 1.00], true),
    row("GRU", "", BF16, 1.67, 1.47, [0.68, 1.04], true),
    row("GRU", "", F32, 1.07, 1.04, [0.97, 1.05], true),
    row("Gelu", "", F16, 0.97, 0.96, [0.99, 1.00], true),
    row("Gelu", "", BF16, 2.48, 2.55, [0.93, 1.00], true),
    row("Gelu", "", F32, 1.45, 1.63, [1.00, 1.00], true),
    row("Gelu", "tanh", F16, 0.92, 0.79, [0.99, 1.00], true),
    row("Gelu", "tanh", BF16, 3.83, 3.82, [0.83, 1.00], true),
    row("Gelu", "tanh", F32, 2.20, 2.28, [1.00, 1.00], true),
    row("Gelu", "tanh", F64, 0.85, 1.01, [6539975.50, 5428916.25], true),
    row("GroupNormalization", "groups", F16, 2.46, 2.41, [1.00, 1000000000.00], true),
    row("GroupNormalization", "groups", BF16, 2.40, 2.39, [0.47, 1000000000.00], true),
    row("GroupNormalization", "groups", F32, 2.29, 2.19, [0.25, 1000000000.00], true),
    row("GroupNormalization", "groups", F64, 0.65, 0.68, [132678039.38, 1000000000.00], true),
    row("HardSigmoid", "", F16, 16.21, 16.16, [0.50, 1.00], true),
    row("HardSigmoid", "", BF16, 2.58, 2.62, [0.50, 1.00], true),
    row("HardSigmoid", "", F32, 2.91, 2.91, [0.67, 1.00], true),
    row("HardSwish", "", F16, 10.15, 11.56, [0.52, 1.00], true),
    row("HardSwish", "", BF16, 2.79, 2.75, [0.46, 1.00], true),
    row("HardSwish", "", F32, 2.19, 2.17, [0.81, 1.00], true),
    row("InstanceNormalization", "", F16, 1.74, 1.68, [1.00, 63.80], true),
    row("InstanceNormalization", "", BF16, 2.29, 2.23, [0.39, 8.03], true),
    row("InstanceNormalization", "", F32, 1.31, 1.46, [0.87, 1.36], true),
    row("InstanceNormalization", "groups", F16, 1.62, 2.12, [1.31, 1.00], true),
    row("InstanceNormalization", "groups", BF16, 2.20, 1.99, [0.60, 1.00], true),
    row("InstanceNormalization", "groups", F32, 1.85, 1.80, [0.32, 2.89], true),
    row("LSTM", "", F16, 1.58, 1.45, [0.99, 1.00], true),
    row("LSTM", "", BF16, 1.74, 8.97, [0.61, 1.02], true),
    row("LSTM", "", F32, 1.11, 0.95, [1.00, 1.00], true),
    row("LayerNormalization", "", F16, 2.46, 3.80, [1.00, 1.00], true),
    row("LayerNormalization", "", BF16, 0.65, 0.67, [0.39, 1.00], true),
    row("LayerNormalization", "", F32, 2.10, 1.97, [0.97, 1.03], true),
    row("LayerNormalization", "", F64, 0.35, 0.34, [344.67, 35122.88], true),
    row("LeakyRelu", "", F16, 2.22, 2.11, [1.00, 1.00], true),
    row("LeakyRelu", "", BF16, 1.77, 1.65, [1.00, 1.00], true),
    row("LeakyRelu", "", F32, 3.16, 3.10, [1.00, 1.00], true),
    row("LogSoftmax", "", F16, 1.00, 1.00, [1.00, 1.00], true),
    row("LogSoftmax", "", BF16, 2.03, 1.98, [0.50, 1.00], true),
    row("LogSoftmax", "", F32, 1.88, 2.03, [0.99, 1.00], true),
    row("LogSoftmax", "", F64, 1.04, 0.67, [1.00, 1.15], false),
    row("Mish", "", F16, 0.82, 0.93, [1.00, 1.00], true),
    row("Mish", "", BF16, 0.93, 1.04, [0.83, 1.00], true),
    row("Mish", "", F32, 0.41, 0.42, [1.00, 1.00], true),
    row("PRelu", "", F16, 0.26, 0.26, [1.00, 1.00], true),
    row("PRelu", "", BF16, 0.55, 0.50, [1.00, 1.00], true),
    row("PRelu", "", F32, 0.24, 0.24, [1.00, 1.00], true),
    row("RMSNormalization", "", F16, 2.37, 2.36, [1.00, 1.00], true),
    row("RMSNormalization", "", BF16, 2.10, 2.13, [0.45, 1.00], true),
    row("RMSNormalization", "", F32, 1.99, 2.66, [1.00, 1.00], true),
    row("RMSNormalization", "", F64, 0.63, 0.77, [5.00, 8962.43], true),
    row("RNN", "", F16, 0.53, 0.66, [0.98, 1.00], true),
    row("RNN", "", BF16, 0.89, 0.69, [0.71, 1.06], true),
    row("RNN", "", F32, 0.43, 0.46, [0.93, 1.08], true),
    row("ReduceL2", "", F16, 0.76, 0.56, [1.00, 1.00], false),
    row("ReduceL2", "", BF16, 1.06, 1.01, [0.69, 1.00], true),
    row("ReduceL2", "", F32, 0.49, 0.47, [6.23, 23.37], true),
    row("ReduceL2", "", F64, 0.82, 0.70, [4.00, 8.62], true),
    row("ReduceLogSumExp", "", F16, 0.37, 0.40, [1.00, 1.00], true),
    row("ReduceLogSumExp", "", BF16, 0.47, 1.09, [0.50, 1.00], true),
    row("ReduceLogSumExp", "", F32, 0.39, 0.40, [2.54, 1.53], true),
    row("ReduceLogSumExp", "", F64, 1.02, 1.06, [1.00, 3.23], true),
    row("ReduceMean", "", F16, 1.02, 1.06, [1.00, 1.00], true),
    row("ReduceMean", "", BF16, 1.01, 1.01, [1.00, 1.00], true),
    row("ReduceMean", "", F32, 1.54, 1.08, [1.00, 1.00], true),
    row("ReduceMean", "", F64, 1.05, 1.09, [1.00, 1.00], true),
    row("ReduceSumSquare", "", F16, 1.00, 0.96, [1.00, 1.00], true),
    row("ReduceSumSquare", "", BF16, 1.14, 1.18, [1.00, 1.00], true),
    row("ReduceSumSquare", "", F32, 0.67, 0.48, [7.43, 23.40], true),
    row("ReduceSumSquare", "", F64, 0.72, 0.79, [3.33, 8.73], true),
    row("Relu", "", F16, 10.06, 9.93, [1.00, 1.00], true),
    row("Relu", "", BF16, 1.06, 1.07, [1.00, 1.00], true),
    row("Relu", "", F32, 1.08, 1.06, [1.00, 1.00], true),
    row("Relu", "", F64, 1.31, 1.09, [1.00, 1.00], true),
    row("Resize", "linear", F16, 6.89, 8.06, [0.49, 1.00], false),
    row("Resize", "linear", BF16, 10.66, 25.08, [0.39, 1.00], false),
    row("Resize", "linear", F32, 9.12, 41.23, [0.46, 1.00], false),
    row("Resize", "linear, antialias", F16, 1.73, 1.71, [0.44, 1.00], false),
    row("Resize", "linear, antialias", BF16, 1.60, 2.09, [0.34, 1.00], false),
    row("Resize", "linear, antialias", F32, 1.47, 2.03, [0.61, 1.00], false),
    row("Resize", "cubic", F16, 0.08, 0.04, [0.48, 1.00], false),
    row("Resize", "cubic", BF16, 2.88, 10.19, [0.37, 1.00], false),
    row("Resize", "cubic", F32, 3.66, 3.72, [0.28, 1.00], false),
    row("Resize", "cubic, antialias", F16, 1.18, 1.17, [0.59, 1.00], false),
    row("Resize", "cubic, antialias", BF16, 1.10, 1.40, [0.35, 1.00], false),
    row("Resize", "cubic, antialias", F32, 1.19, 1.18, [0.72, 1.00], false),
    row("RotaryEmbedding", "", F16, 4.12, 3.90, [1.00, 1.00], true),
    row("RotaryEmbedding", "", BF16, 2.33, 2.54, [0.71, 1.00], true),
    row("RotaryEmbedding", "", F32, 3.15, 3.42, [0.85, 1.00], true),
    row("Selu", "", F16, 2.56, 2.41, [0.83, 1.00], true),
    row("Selu", "", BF16, 2.86, 2.88, [0.53, 1.00], true),
    row("Selu", "", F32, 2.82, 2.96, [1.00, 1.00], true),
    row("Softmax", "", F16, 1.03, 1.00, [1.00, 1.00], true),
    row("Softmax", "", BF16, 1.99, 1.98, [0.74, 1.00], true),
    row("Softmax", "", F32, 1.89, 1.93, [1.00, 1.00], true),
    row("Softmax", "", F64, 1.01, 1.03, [1.50, 1.00], true),
    row("Softplus", "", F16, 0.19, 0.78, [1.00, 1.00], true),
    row("Softplus", "", BF16, 0.24, 0.86, [1.00, 1.00], true),
    row("Softplus", "", F32, 0.41, 0.43, [1.00, 1.00], true),
    row("Softsign", "", F16, 1.51, 1.57, [1.00, 1.00], true),
    row("Softsign", "", BF16, 1.91, 2.13, [0.43, 1.00], true),
    row("Softsign", "", F32, 1.69, 1.82, [1.20, 1.00], true),
    row("SpaceToDepth", "", F16, 5.39, 4.95, [1.00, 1.00], true),
    row("SpaceToDepth", "", F32, 6.40, 5.90, [1.00, 1.00], true),
    row("SpaceToDepth", "", F64, 3.59, 4.96, [1.00, 1.00], true),
    row("Trilu", "", F16, 2.39, 2.36, [1.00, 1.00], true),
    row("Trilu", "", F32, 1.84, 1.85, [1.00, 1.00], true),
    row("Trilu", "", F64, 2.36, 2.27, [1.00, 1.00], true),
    row("Trilu", "softmax", F16, 1.05, 1.14, [1.00, 1.00], true),
    row("Trilu", "softmax", F32, 1.10, 1.23, [1.00, 1.00], true),
    row("Trilu", "softmax", F64, 0.98, 0.98, [1.00, 1.00], true),
];
