//! onnxruntime's CPU provider.

mod bugs;
mod kernels;
mod measured;
#[cfg(test)]
mod tests;

use onnx::schema;
use tensor::DType;

use super::kernels::Runs;
use super::measured::Row;
use super::{Convolutions, Kernels, Measured, ReadableBlocks, Spec, cuda};

/// The table of kernels, which builds for other platforms start from.
pub(super) static KERNELS: &[Runs] = kernels::KERNELS;

/// The measurements, which providers for other devices start from.
pub(super) static ROWS: &[Row] = measured::ROWS;

/// The bugs of every provider.
pub(super) use bugs::BUGS;

/// Operators of its own domain.
static CONTRIB: &[(&str, &[DType])] = &[
    ("GatherBlockQuantized", &[DType::F32]),
    ("GroupQueryAttention", &[DType::F32]),
    ("MatMulNBits", &[DType::F32]),
    ("SkipSimplifiedLayerNormalization", &[DType::F32]),
];

pub(super) static MEASURED: Measured = Measured::new(&[ROWS], Kernels(&[KERNELS]));

pub(super) static SPEC: Spec = Spec {
    name: "onnxruntime",
    title: "onnxruntime",
    runtime: "onnxruntime's CPU provider, and providers that leave nodes to it",
    opset: 23,
    lowest_opset: 18,
    // It loads newer opsets than it guarantees to run, if asked to.
    newest_opset: schema::NEWEST,
    newest_ir_version: 13,
    kernels: Some(Kernels(&[KERNELS])),
    contrib: CONTRIB,
    rounds_operands: true,
    provider: None,
    on_device: None,
    keeps_on_device: false,
    // Every lookup limits its indices.
    elsewhere: Some(cuda::KERNELS),
    elementary: &[],
    rounds_once: false,
    hides_below: f32::MIN as f64,
    measured: &MEASURED,
    bugs: &[&BUGS],
    // `scripts/measure_pointwise.py` measures these.
    convolutions: Some(Convolutions {
        block: 16,
        pixels: 16,
        // Two pairs of products between others that cannot move become convolutions, which takes
        // two more transposes, and three products do not.
        gain: (3, 5),
        // Two products with norms between others that cannot move become convolutions, and one does
        // not, unless it has few channels and makes many.
        pass_over: (3, 8),
        narrow: 160,
    }),
    // `scripts/measure_resizing.py` measures this.
    resizes_identities_fast: true,
    // `SkipLayerNormalization` takes six to eight times as long as both operators (1.30, 1.31), and
    // as long as both before.
    fuses_sums_with_norms: true,
    // `SimplifiedLayerNormFusion`, in all releases from 1.17 on.
    fused_on_load: &["RMSNormalization"],
    limits_biased_sums: true,
    mistakes_matrices_for_signals: true,
    blocks: ReadableBlocks::All,
    only_stores_four_bit_floats: true,
};
