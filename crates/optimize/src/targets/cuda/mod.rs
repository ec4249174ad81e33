//! onnxruntime's CUDA provider.

mod kernels;
mod measured;

use tensor::DType::{self, BF16, F16, F32};

use super::spellings::{RAISED_WEIGHTS, SEPARATE_BIASES, SINGLE_UPDATES, WIDE_LAYERS};
use super::{Kernels, Measured, Spec, onnxruntime};

/// Operators of onnxruntime's own domain that the provider lists. `tests/targets/test_cuda.py` compares
/// them with the list.
static CONTRIB: &[(&str, &[DType])] = &[
    ("GatherBlockQuantized", &[F32, F16, BF16]),
    ("GroupQueryAttention", &[F16, BF16]),
    ("MatMulNBits", &[F32, F16, BF16]),
    ("SkipSimplifiedLayerNormalization", &[F32, F16, BF16]),
];

/// The kernels of the provider.
pub(super) static KERNELS: Kernels = Kernels(&[kernels::KERNELS]);

static MEASURED: Measured = Measured::new(&[measured::ROWS, onnxruntime::ROWS], KERNELS);

pub(super) static SPEC: Spec = Spec {
    name: "cuda",
    title: "onnxruntime's CUDA provider",
    runtime: "onnxruntime's CUDA provider",
    on_device: Some(KERNELS),
    keeps_on_device: true,
    // Norms and softmax are kernels of the provider, which accumulate in float32. Products,
    // convolutions, batch norms and pools are those of NVIDIA's libraries, with float32 as the type
    // of their computations.
    rounds_once: true,
    hides_below: -1e30,
    measured: &MEASURED,
    bugs: &[
        &onnxruntime::BUGS,
        &[&RAISED_WEIGHTS, &SEPARATE_BIASES, &SINGLE_UPDATES, &WIDE_LAYERS],
    ],
    convolutions: None,
    resizes_identities_fast: false,
    fuses_sums_with_norms: false,
    // The fusion was not measured there, with casts around it above all.
    fused_on_load: &[],
    limits_biased_sums: false,
    contrib: CONTRIB,
    // `MatMulNBits` computes in the type of the other operand.
    rounds_operands: false,
    provider: Some("cuda"),
    ..onnxruntime::SPEC
};

#[cfg(test)]
mod tests {
    use provenance::Origins;
    use tensor::DType::{BF16, Bool, F16, F32, I32, I64};

    use crate::Target;
    use crate::legalize::testing::legalized;
    use crate::legalize::{fallbacks, lowest_opset};
    use crate::targets::testing::runs;
    use crate::testing::graph;

    fn target() -> Target {
        Target::find("cuda").unwrap()
    }

    #[test]
    fn kernels_are_bound_to_versions() {
        assert!(runs(target().on_device, "MaxPool", 21, &[F32, I64]));
        assert!(!runs(target().on_device, "MaxPool", 22, &[F32, I64]));
        assert!(!runs(target().on_device, "Sin", 21, &[BF16]));
        assert!(runs(target().on_device, "Sin", 22, &[BF16]));
    }

    #[test]
    fn nodes_get_types_that_the_device_has() {
        let text = "g (int32[2] x, int32 a, int32 b) => (int32[2] y) { y = Clip (x, a, b) }";
        assert_eq!(legalized(text, target()), "Max:i32 Min:i32");
        let text = "g (bool[2] c, bool[2] x, bool[2] z) => (bool[2] y) { y = Where (c, x, z) }";
        assert_eq!(legalized(text, target()), "Cast:u8 Cast:u8 Where:u8 Cast:bool");
        let text = "g (bfloat16[2] x) => (bfloat16[2] y) { y = Add (x, x) }";
        assert_eq!(legalized(text, target()), "Add:bf16");
        assert!(runs(target().on_device, "Where", 21, &[Bool, F16]));
        assert!(runs(target().on_device, "Add", 21, &[I32]));
    }

    #[test]
    fn the_opset_is_one_at_which_the_device_runs_everything() {
        let text = "g (float[1,2,4,4] x) => (float[1,2,2,2] y) {
            y = MaxPool <kernel_shape = [3, 3]> (x) }";
        let pool = graph(text, &mut Origins::default());
        assert_eq!(lowest_opset(&pool, 23, target()), 18);
        assert_eq!(fallbacks(&pool, 18, target()), []);
        let left = fallbacks(&pool, 23, target());
        assert_eq!(
            left.iter().map(|node| (node.op, node.until)).collect::<Vec<_>>(),
            [("MaxPool", Some(21))]
        );
        let text = "g (bfloat16[2] x) => (bfloat16[2] y) { y = Sin (x) }";
        let sine = graph(text, &mut Origins::default());
        assert_eq!(lowest_opset(&sine, 23, target()), 22);
    }
}
