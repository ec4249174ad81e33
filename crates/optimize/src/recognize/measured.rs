//! What ONNX's own operators are worth in onnxruntime.

use tensor::DType;

/// Whether `op` as one node is the better form for `dtype`.
pub(super) fn is_better(op: &str, variant: &str, dtype: DType) -> bool {
    let _ = (op, variant, dtype);
    true
}
