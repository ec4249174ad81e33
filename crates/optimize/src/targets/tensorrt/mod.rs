//! TensorRT, as far as its ONNX parser documents operators and types. Nothing was run there.

mod kernels;

use super::{Kernels, Measured, Spec, any, onnxruntime};

static MEASURED: Measured = Measured::new(&[onnxruntime::ROWS], Kernels(&[kernels::KERNELS]));

pub(super) static SPEC: Spec = Spec {
    name: "tensorrt",
    title: "TensorRT",
    runtime: "TensorRT 10, according to the documentation of its parser; never run",
    opset: kernels::NEWEST,
    newest_opset: kernels::NEWEST,
    kernels: Some(Kernels(&[kernels::KERNELS])),
    measured: &MEASURED,
    ..any::SPEC
};

#[cfg(test)]
mod tests {
    use tensor::DType::{F32, F64, I32, U8};

    use crate::Target;
    use crate::targets::testing::runs;

    #[test]
    fn types_are_those_of_the_page() {
        let kernels = Target::find("tensorrt").unwrap().kernels;
        assert!(runs(kernels, "Add", 20, &[I32]));
        assert!(!runs(kernels, "Add", 20, &[F64]));
        assert!(!runs(kernels, "Add", 20, &[U8]));
        assert!(!runs(kernels, "Clip", 20, &[I32]));
        assert!(runs(kernels, "Gelu", 20, &[F32]));
        assert!(!runs(kernels, "BitwiseAnd", 20, &[I32]));
    }
}
