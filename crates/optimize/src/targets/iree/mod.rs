//! IREE, which compiles ONNX files by way of MLIR.

use super::spellings::{
    BACKWARD_LAYERS, DISTINCT_SORTS, PADDED_UPDATES, PLAIN_LOOPS, STACKED_ROWS, UNEVEN_PADDING,
};
use super::{ReadableBlocks, Spec, openvino};

pub(super) static SPEC: Spec = Spec {
    name: "iree",
    title: "IREE",
    runtime: "IREE, compiled for a CPU",
    // It has none of the operators that opset 23 added.
    opset: 22,
    newest_opset: 22,
    // It does not compile a `GRU` with a batch of symbolic size.
    elementary: &["GRU"],
    bugs: &[&[
        &BACKWARD_LAYERS,
        &DISTINCT_SORTS,
        &PADDED_UPDATES,
        &PLAIN_LOOPS,
        &STACKED_ROWS,
        &UNEVEN_PADDING,
    ]],
    blocks: ReadableBlocks::None,
    ..openvino::SPEC
};
