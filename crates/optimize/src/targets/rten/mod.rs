//! rten, an inference engine in Rust. It has no scans, and integers of 32 bits in place of 64.

mod kernels;

use super::spellings::SCANS;
use super::{Kernels, ReadableBlocks, Spec, onnxruntime, openvino};

pub(super) static SPEC: Spec = Spec {
    name: "rten",
    title: "rten",
    runtime: "rten",
    // It has `BitCast`.
    newest_opset: 26,
    kernels: Some(Kernels(&[kernels::KERNELS, onnxruntime::KERNELS])),
    bugs: &[&[&SCANS]],
    blocks: ReadableBlocks::None,
    ..openvino::SPEC
};

#[cfg(test)]
mod tests {
    use tensor::DType;

    use crate::Target;
    use crate::targets::testing::runs;

    #[test]
    fn small_integers_are_not_reduced() {
        let kernels = Target::find("rten").unwrap().kernels;
        assert!(runs(kernels, "ReduceMax", 18, &[DType::I32]));
        assert!(!runs(kernels, "ReduceMax", 18, &[DType::U8]));
    }

    #[test]
    fn integers_are_summed_but_not_multiplied() {
        let kernels = Target::find("rten").unwrap().kernels;
        assert!(runs(kernels, "ReduceSum", 13, &[DType::I32, DType::I64]));
        assert!(runs(kernels, "MatMul", 13, &[DType::F32]));
        assert!(!runs(kernels, "MatMul", 13, &[DType::I32]));
    }
}
