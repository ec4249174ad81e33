//! MNN, an inference engine for phones, whose converter reads ONNX files.

use super::openvino::WIDE_BITS;
use super::spellings::{
    BACKWARD_LAYERS, BACKWARD_SLICES, FLOAT_COMPARISONS, NAN_TESTS, RAISED_SCALARS, SCANS,
};
use super::{ReadableBlocks, Spec, openvino};

pub(super) static SPEC: Spec = Spec {
    name: "mnn",
    title: "MNN",
    runtime: "MNN, by way of its converter",
    // It has none of the operators that opset 23 added.
    opset: 22,
    newest_opset: 22,
    bugs: &[&[
        &BACKWARD_LAYERS,
        &SCANS,
        &BACKWARD_SLICES,
        &FLOAT_COMPARISONS,
        &NAN_TESTS,
        &RAISED_SCALARS,
        &WIDE_BITS,
    ]],
    blocks: ReadableBlocks::None,
    ..openvino::SPEC
};
