//! A `MatMul` of transposed operands in half precision → one in single precision, with casts around
//! it.
//!
//! onnxruntime computes it this way anyway, but inserts the casts after the transposes, which
//! [`super::cast_after_transpose`] avoids.

use onnx::{Attrs, NodeId, attrs};
use tensor::DType;

use super::cast_after_transpose::{cast_first, is_turned};
use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(super) static BUG: Bug = Bug { name: "half_product", roots: Roots::Named(&["MatMul"]), avoid };

fn avoid(work: &mut Legalizer<'_>, product: NodeId) -> Result<(), Error> {
    // Products of a device in half precision get no casts.
    if work.target.rounds_once {
        return Ok(());
    }
    let node = work.graph().node(product).clone();
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Ok(()) };
    let dtype = work.graph().ty(node.outputs[0]).dtype;
    if dtype != DType::F16 || ![a, b].iter().any(|operand| is_turned(work.graph(), *operand)) {
        return Ok(());
    }
    let mut cast = |x| cast_first(work, product, node.origin, x, DType::F32);
    let operands = [cast(a)?, cast(b)?];
    let mut builder = work.builder(product);
    let wide = builder.op("MatMul", &operands, Attrs::new())?;
    let result = builder.op("Cast", &[wide], attrs! { to: dtype })?;
    Ok(work.substitute(product, &[result])?)
}
