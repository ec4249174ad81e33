//! tract, an inference engine in Rust.

use super::spellings::{BACKWARD_LAYERS, COUNTED_LOOPS, HALF_GEMM, RAISED_EXPAND};
use super::{ReadableBlocks, Spec, openvino};

// It lacks the same operators of newer opsets as OpenVINO.
pub(super) static SPEC: Spec = Spec {
    name: "tract",
    title: "tract",
    runtime: "tract",
    bugs: &[&[&BACKWARD_LAYERS, &COUNTED_LOOPS, &HALF_GEMM, &RAISED_EXPAND]],
    blocks: ReadableBlocks::None,
    ..openvino::SPEC
};
