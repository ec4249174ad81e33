//! `MatMul(a, b) + c` of matrices → `Gemm(a, b, c)`.
//!
//! A runtime may add `c` before the products instead of after them. With its optimisations on,
//! it often makes the same replacement itself. With them off, the last bits of long sums differ.
//!
//! In half precision both operators stay, because not every runtime has such a `Gemm`.

use onnx::{Attrs, ValueId};
use tensor::{DType, Dim};

use crate::rewrite::{either_order, operands};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("matmul_add_to_gemm", &["Add"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    let (product, bias) = either_order(m.root(), |x, _| m.producer(x, &["MatMul"]).is_some())
        .ok_or("no operand is a MatMul")?;
    let matmul = m.producer(product, &["MatMul"]).ok_or("no operand is a MatMul")?;
    let [a, b] = operands(matmul)?;
    Skip::when(m.ty(a).rank() != 2 || m.ty(b).rank() != 2, "rank is not 2")?;
    if !matches!(m.ty(y).dtype, DType::F32 | DType::F64) {
        return Err("a Gemm of the type does not run everywhere".into());
    }
    Skip::when(!m.is_used_once(product), "the product has other readers")?;
    Skip::when(m.ty(y) != m.ty(product), "the bias broadcasts the product")?;
    let bias_dims = m.ty(bias).shape.iter().rev();
    let fits = |(c, y): (&Dim, &Dim)| *c == Dim::Known(1) || c == y;
    if !bias_dims.zip(m.ty(y).shape.iter().rev()).all(fits) {
        return Err("the bias does not broadcast to the product".into());
    }
    Ok(vec![m.op("Gemm", &[a, b, bias], Attrs::new())?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn a_dense_layer_is_a_gemm() {
        for bias in ["4", "1,4", "B,1", "B,4", "1"] {
            let start =
                format!("g (float[B,3] x, float[{bias}] b, float[3,4] w) => (float[B,4] y)");
            rewrites_to(
                &REWRITE,
                &format!("{start} {{ t = MatMul (x, w) y = Add (b, t) }}"),
                &format!("{start} {{ y = Gemm (x, w, b) }}"),
            );
        }
    }

    #[test]
    fn other_products_are_unchanged() {
        for signature in [
            "float[B,2,3] x, float[3,4] w, float[4] b) => (float[B,2,4] y",
            "int32[2,3] x, int32[3,4] w, int32[4] b) => (int32[2,4] y",
            "float16[2,3] x, float16[3,4] w, float16[4] b) => (float16[2,4] y",
            "float[1,3] x, float[3,4] w, float[2,4] b) => (float[2,4] y",
            "float[2,3] x, float[3,4] w, float[1,2,4] b) => (float[1,2,4] y",
            "float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y, float[2,4] t",
        ] {
            stays(&REWRITE, &format!("g ({signature}) {{ t = MatMul (x, w) y = Add (t, b) }}"));
        }
    }
}
