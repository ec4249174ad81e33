//! Questions about kernels, for the tests of targets.

use onnx::{Attrs, Op, schema};
use tensor::DType;

use super::Kernels;
use super::kernels::Row;

/// Returns the rows that apply to a node of `op` with `attrs` and these element types.
pub(super) fn rows(
    kernels: Option<Kernels>,
    op: &'static str,
    opset: i64,
    attrs: &Attrs,
    types: &[DType],
) -> Vec<&'static Row> {
    let schema = schema::find(&Op::onnx(op), opset).unwrap();
    let rows = kernels.unwrap().rows(schema, attrs);
    rows.filter(|row| row.types().zip(types).all(|(set, dtype)| set.contains(*dtype))).collect()
}

/// Returns `true` if there is a kernel of `op` without attributes for these element types.
pub(super) fn runs(
    kernels: Option<Kernels>,
    op: &'static str,
    opset: i64,
    types: &[DType],
) -> bool {
    !rows(kernels, op, opset, &Attrs::new(), types).is_empty()
}
