//! onnxruntime-web in WebAssembly: a build of onnxruntime with fewer kernels and the same optimiser.
//! Nothing has been timed there.

mod kernels;

use super::{Kernels, Spec, onnxruntime};

pub(super) static SPEC: Spec = Spec {
    name: "onnxruntime-web",
    title: "onnxruntime-web",
    runtime: "the npm package onnxruntime-web, in WebAssembly",
    newest_opset: kernels::NEWEST,
    kernels: Some(Kernels(&[kernels::KERNELS, onnxruntime::KERNELS])),
    convolutions: None,
    resizes_identities_fast: false,
    fuses_sums_with_norms: false,
    contrib: &[],
    elsewhere: None,
    ..onnxruntime::SPEC
};

#[cfg(test)]
mod tests {
    use tensor::DType;

    use crate::Target;
    use crate::targets::testing::runs;

    #[test]
    fn webassembly_has_double_precision() {
        let target = Target::find("onnxruntime-web").unwrap();
        assert!(runs(target.kernels, "Add", 21, &[DType::F64]));
    }
}
