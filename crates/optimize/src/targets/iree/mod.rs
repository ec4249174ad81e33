//! IREE, which compiles ONNX files by way of MLIR.

use super::spellings::{INITIAL_STATES, STACKED_SYMBOLIC_ROWS, UNEVEN_PADDING};
use super::{Spec, openvino};

pub(super) static SPEC: Spec = Spec {
    name: "iree",
    title: "IREE",
    // It has none of the operators that opset 23 added.
    opset: 22,
    bugs: &[&INITIAL_STATES, &STACKED_SYMBOLIC_ROWS, &UNEVEN_PADDING],
    ..openvino::SPEC
};
