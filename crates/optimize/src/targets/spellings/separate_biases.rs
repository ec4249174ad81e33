//! `Conv(x, w, b)` → `Conv(x, w) - -b`, for targets that add biases of convolutions slowly. They would
//! fuse an `Add`, but not a `Sub`.

use onnx::{Attrs, NodeId};
use tensor::Dim;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static SEPARATE_BIASES: Bug =
    Bug { name: "separate_biases", roots: Roots::Named(&["Conv", "ConvTranspose"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let graph = work.graph();
    let node = graph.node(id).clone();
    let Some(bias) = node.input(2) else { return Ok(()) };
    let rank = graph.ty(node.outputs[0]).rank();
    let Some(Dim::Known(channels)) = graph.ty(bias).shape.first() else { return Ok(()) };
    let mut shape = vec![1; rank - 1];
    shape[0] = usize::try_from(*channels).unwrap_or_default();
    let negative = graph.tensor(bias).and_then(tensor::Tensor::negated);
    let Some(negative) = negative.and_then(|negative| negative.reshaped(&shape).ok()) else {
        return Ok(());
    };
    let name = graph.parameter(bias).map(|_| format!("{}/Neg", graph.value(bias).name));
    let b = &mut work.builder(id, Some(id));
    let negative = match name {
        Some(name) => b.graph_mut().add_parameter(name, negative),
        None => b.constant(negative),
    };
    let conv = b.op_optional(node.op.name, &node.inputs[..2], node.attrs)?;
    let sum = b.op("Sub", &[conv, negative], Attrs::new())?;
    Ok(work.substitute(id, &[sum])?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn layer(signature: &str, body: &str, target: &str) -> String {
        let text = format!(
            "g ({signature}) => (float[1,2,4] y) <float[2,2,1] w = {{1, 2, 3, 4}}, float[2] b = {{5, -6}}> {{ {body} }}"
        );
        spelled(&text, target).unwrap()
    }

    #[test]
    fn biases_are_subtracted_after_the_convolution() {
        for op in ["Conv", "ConvTranspose"] {
            let body = format!("y = {op} (x, w, b)");
            let text = layer("float[1,2,4] x", &body, "cuda");
            assert!(text.contains("Sub") && text.contains("{-5.0, 6.0}"), "{text}");
            assert!(text.contains("b/Neg"), "{text}");
            assert!(!layer("float[1,2,4] x", &body, "onnxruntime").contains("Sub"));
        }
    }

    #[test]
    fn other_convolutions_are_unchanged() {
        let computed = "float[1,2,4] x, float[2] c";
        for (signature, inputs) in [("float[1,2,4] x", "x, w"), (computed, "x, w, c")] {
            let text = layer(signature, &format!("y = Conv ({inputs})"), "cuda");
            assert!(!text.contains("Sub"), "{text}");
        }
    }
}
