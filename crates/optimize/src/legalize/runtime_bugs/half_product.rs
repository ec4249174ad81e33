//! A `MatMul` of transposed numbers in half precision is one in single precision, with casts around
//! it.
//!
//! onnxruntime computes it like that anyway, but puts the casts behind the transposes, which is what
//! [`super::cast_after_transpose`] avoids.

use onnx::{Attrs, NodeId, attrs};
use tensor::DType;

use super::Bug;
use super::cast_after_transpose::moved;
use crate::legalize::{Error, Target, Work};

pub(super) static BUG: Bug =
    Bug { name: "half_product", target: Target::OnnxRuntime, roots: &["MatMul"], avoid };

fn avoid(work: &mut Work<'_>, product: NodeId) -> Result<(), Error> {
    let node = work.graph.node(product).clone();
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Ok(()) };
    let transposes = [a, b].map(|operand| moved(work.graph, operand));
    let dtype = work.graph.ty(node.outputs[0]).dtype;
    if dtype != DType::F16 || transposes.iter().all(Option::is_none) {
        return Ok(());
    }
    let mut operands = [a, b];
    for (operand, transpose) in operands.iter_mut().zip(transposes) {
        let turn = transpose.map(|(_, node)| work.graph.node(node).attrs.clone());
        let mut builder = work.builder(product, Some(product));
        let x = transpose.map_or(*operand, |(x, _)| x);
        *operand = builder.op("Cast", &[x], attrs! { to: DType::F32 })?;
        if let Some(turn) = turn {
            *operand = builder.op("Transpose", &[*operand], turn)?;
        }
    }
    let mut builder = work.builder(product, Some(product));
    let wide = builder.op("MatMul", &operands, Attrs::new())?;
    let result = builder.op("Cast", &[wide], attrs! { to: dtype })?;
    work.substitute(product, &[result]);
    for (_, node) in transposes.into_iter().flatten() {
        let is_live = work.graph.get(node).is_some();
        if is_live && !work.graph.value(work.graph.node(node).outputs[0]).is_used() {
            work.graph.remove_node(node);
        }
    }
    Ok(())
}
