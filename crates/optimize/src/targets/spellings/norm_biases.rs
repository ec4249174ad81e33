//! `LayerNormalization` without a bias → with a bias of zeros, for targets that end the process when several nodes
//! read such a norm.

use std::sync::Arc;

use onnx::NodeId;
use tensor::{Dim, Tensor, Type};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static NORM_BIASES: Bug =
    Bug { name: "norm_biases", roots: Roots::Named(&["LayerNormalization"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id).clone();
    let (Some(x), Some(scale), None) = (node.input(0), node.input(1), node.input(2)) else {
        return Ok(());
    };
    let is_shared = work.graph().only_reader(node.outputs[0]).is_none();
    let Some(bias) = zeros(work.graph().ty(scale)).filter(|_| is_shared) else { return Ok(()) };
    let b = &mut work.builder(id);
    let bias = b.constant(bias);
    let result = b.op("LayerNormalization", &[x, scale, bias], node.attrs)?;
    Ok(work.substitute(id, &[result])?)
}

/// Returns a tensor of zeros, if its shape is known.
fn zeros(ty: &Type) -> Option<Tensor> {
    let sizes = Dim::all_known(&ty.shape)?;
    let sizes: Vec<usize> =
        sizes.into_iter().map(usize::try_from).collect::<Result<_, _>>().ok()?;
    let zero = Tensor::scalar(ty.dtype, 0.0)?;
    let bytes = zero.bytes()?.repeat(sizes.iter().product());
    Tensor::new(ty.dtype, &sizes, Arc::new(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn norms_that_several_nodes_read_have_a_bias() {
        let norm = |result: &str, target| {
            let text = format!(
                "g (float[B,2] x) => (float[B,2] y) <float[2] w = {{1, 2}}> {{
                    n = LayerNormalization (x, w)
                    s = Sin (n)
                    y = Add (s, {result})
                }}"
            );
            spelled(&text, target).unwrap()
        };
        assert!(norm("n", "onnxruntime>=1.17").contains("LayerNormalization (x, w, "));
        assert!(norm("n", "onnxruntime>=1.18").contains("LayerNormalization (x, w, "));
        assert!(norm("n", "onnxruntime>=1.19").contains("LayerNormalization (x, w)"));
        assert!(norm("x", "onnxruntime>=1.17").contains("LayerNormalization (x, w)"));
    }
}
