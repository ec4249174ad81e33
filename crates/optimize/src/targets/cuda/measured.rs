//! Operators that the CPU provider's measurements do not apply to, on an NVIDIA H200 with onnxruntime
//! 1.31.1.
//!
//! `scripts/measure_operators.py --cuda` measured the errors. Speeds other than 1 are the times of the
//! kernels in decoders of twelve layers. The kernel of attention splits the work by heads and blocks of
//! queries: a single query leaves most of the GPU idle. In float32, heads that share keys have no fused
//! kernel. One recurrent layer is one kernel, and its steps are many. Scales of rows were measured on a
//! norm of 8 × 256 rows of 768 elements, in place of a product and a sum behind it.

use tensor::DType::{BF16, F16, F32};

use crate::targets::measured::{Row, row};

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    row("Attention", "", F16, 1.00, 1.00, [0.67, 1.00], true),
    // The error on hostile numbers does not count: scores above a billion give NaN.
    row("Attention", "", BF16, 1.00, 1.00, [0.62, 1.00], true),
    row("Attention", "", F32, 1.00, 1.00, [1.00, 1.00], true),
    row("Attention", "one query", F16, 0.36, 0.36, [0.79, 1.00], true),
    row("Attention", "one query", BF16, 0.36, 0.36, [0.78, 1.53], true),
    row("Attention", "one query", F32, 0.68, 0.68, [2.72, 2.09], true),
    row("Attention", "shared heads", F32, 0.46, 0.46, [1.00, 1.00], true),
    row("InstanceNormalization", "", F32, 1.00, 1.00, [1.14, 145609.29], true),
    row("LayerNormalization", "scales of rows", F16, 1.37, 1.37, [0.58, 1.00], true),
    row("LayerNormalization", "scales of rows", BF16, 1.00, 1.00, [1.00, 1.00], true),
    row("LayerNormalization", "scales of rows", F32, 1.42, 1.42, [1.00, 1.00], true),
    row("LogSoftmax", "", F32, 1.00, 1.00, [1.00, 86.17], true),
    row("RNN", "", F32, 1.00, 1.00, [1.20, 1.23], true),
    row("ReduceMean", "", F16, 1.00, 1.00, [1.00, 1000000000.00], false),
    row("ReduceMean", "", BF16, 1.00, 1.00, [1.00, 15.94], true),
    row("Resize", "linear", F16, 1.00, 1.00, [1.32, 1.00], false),
];
