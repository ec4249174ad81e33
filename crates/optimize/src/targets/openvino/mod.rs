//! OpenVINO's CPU plugin, which reads ONNX files. It runs what the models for onnxruntime consist of,
//! except for the bits of unsigned integers.

use onnx::NodeId;
use tensor::DType;

use super::{Bug, Kernels, ReadableBlocks, Spec, any, onnxruntime};
use crate::Roots;
use crate::legalize::{Error, Legalizer};

pub(super) static SPEC: Spec = Spec {
    name: "openvino",
    title: "OpenVINO",
    runtime: "OpenVINO's CPU plugin",
    // It lacks `TensorScatter` of opset 24, and `BitCast` and `CumProd` of opset 26.
    newest_opset: 23,
    kernels: Some(Kernels(&[onnxruntime::KERNELS])),
    bugs: &[&[&WIDE_BITS]],
    blocks: ReadableBlocks::Whole,
    only_stores_four_bit_floats: true,
    ..any::SPEC
};

/// It computes unsigned integers of 32 and 64 bits as signed ones of 32 bits, and limits their
/// constants. Random bits would be others.
pub(super) static WIDE_BITS: Bug =
    Bug { name: "wide_bits", roots: Roots::Named(&["BitShift"]), avoid: refuse_wide_bits };

fn refuse_wide_bits(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    let dtype = work.graph().ty(node.outputs[0]).dtype;
    if !matches!(dtype, DType::U32 | DType::U64) {
        return Ok(());
    }
    let reason = "it computes such integers as signed ones of 32 bits, so random numbers have to be inputs of the model";
    Err(work.unsupported(id, dtype, reason))
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn shifts_of_wide_integers_are_an_error() {
        let shifted = |dtype: &str, target: &str| {
            let text = format!(
                "g ({dtype}[B] x, {dtype}[B] n) => ({dtype}[B] y) {{
                    y = BitShift <direction = \"RIGHT\"> (x, n)
                }}"
            );
            spelled(&text, target)
        };
        let message = shifted("uint32", "openvino").unwrap_err().to_string();
        assert!(message.starts_with("OpenVINO cannot compute `BitShift` on u32: "), "{message}");
        assert!(shifted("uint8", "openvino").is_ok());
        assert!(shifted("uint32", "tract").is_ok());
    }
}
