//! The build of onnxruntime-web for WebGPU, which leaves nodes to the CPU.

mod kernels;

use super::{Kernels, Spec, onnxruntime, onnxruntime_web};

pub(super) static SPEC: Spec = Spec {
    name: "webgpu",
    title: "the WebGPU build of onnxruntime-web",
    runtime: "the WebGPU build of onnxruntime-web, in a browser",
    // GPU kernels support a range of operator versions. Many of these ranges end here.
    opset: 21,
    lowest_opset: 21,
    kernels: Some(Kernels(&[kernels::KERNELS, onnxruntime::KERNELS])),
    on_device: Some(Kernels(&[kernels::ON_GPU])),
    elementary: &["Trilu"],
    elsewhere: None,
    fused_on_load: &[],
    ..onnxruntime_web::SPEC
};

#[cfg(test)]
mod tests {
    use provenance::Origins;
    use tensor::DType;

    use crate::Target;
    use crate::legalize::lowest_opset;
    use crate::targets::testing::runs;
    use crate::testing::graph;

    fn target() -> Target {
        Target::find("webgpu").unwrap()
    }

    #[test]
    fn there_is_no_double_precision() {
        assert!(!runs(target().kernels, "Add", 21, &[DType::F64]));
    }

    #[test]
    fn kernels_on_the_gpu_are_bound_to_versions() {
        assert!(runs(target().on_device, "Sin", 21, &[DType::F32]));
        assert!(!runs(target().on_device, "Sin", 23, &[DType::F32]), "bound to that of opset 7");
    }

    #[test]
    fn the_opset_stays_at_which_the_gpu_has_its_kernels() {
        let text = "g (float[2] x) => (float[2] y) { y = Sin (x) }";
        let graph = graph(text, &mut Origins::default());
        assert_eq!(lowest_opset(&graph, 21, target()), 21);
        assert_eq!(lowest_opset(&graph, 17, Target::default()), 17);
    }
}
