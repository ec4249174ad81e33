//! Any runtime: all that the specification allows.

use onnx::schema;

use super::{ReadableBlocks, Spec, onnxruntime};

pub(super) static SPEC: Spec = Spec {
    name: "any",
    title: "ONNX",
    runtime: "no particular runtime: all that ONNX's specification allows",
    opset: 23,
    lowest_opset: 18,
    newest_opset: schema::NEWEST,
    newest_ir_version: 13,
    kernels: None,
    contrib: &[],
    rounds_operands: false,
    provider: None,
    elsewhere: None,
    on_device: None,
    keeps_on_device: false,
    elementary: &[],
    rounds_once: false,
    hides_below: f32::MIN as f64,
    // The runtime is unknown, so the measurements of the usual one decide.
    measured: &onnxruntime::MEASURED,
    bugs: &[],
    convolutions: None,
    resizes_identities_fast: false,
    fuses_sums_with_norms: false,
    fused_on_load: &[],
    limits_biased_sums: false,
    mistakes_matrices_for_signals: false,
    blocks: ReadableBlocks::All,
    only_stores_four_bit_floats: false,
};
