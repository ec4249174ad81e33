//! `MatMul` along an axis without elements: every result is a sum of nothing, which is zero.

use onnx::{Attrs, ValueId, attrs};
use tensor::{Dim, Tensor};

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "product_over_nothing", roots: &["MatMul"], try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (a, b) = (m.operand(0)?, m.operand(1)?);
    if m.ty(a).shape.last() != Some(&Dim::Known(0)) {
        return Err("its sums may have terms".into());
    }
    let ty = m.ty(m.result()?).clone();
    let zero = Tensor::scalar(ty.dtype, 0.0).ok_or("the type has no zero")?;
    let zero = m.tensor(zero);
    let shape = match ty.static_shape() {
        Some(shape) => m.i64s(&shape),
        None => shape(m, a, b)?,
    };
    Ok(vec![m.op("Expand", &[zero, shape], Attrs::new())?])
}

/// The shape of the product of two stacks of equally many matrices.
fn shape(m: &mut Match<'_>, a: ValueId, b: ValueId) -> Result<ValueId, Skip> {
    let (left, right) = (&m.ty(a).shape, &m.ty(b).shape);
    let stack = left.len().checked_sub(2).ok_or("an operand is a vector")?;
    if left.len() != right.len() || left[..stack] != right[..stack] {
        return Err("an operand is broadcast".into());
    }
    let rows = m.op("Shape", &[a], attrs! { start: 0, end: -1 })?;
    let columns = m.op("Shape", &[b], attrs! { start: -1 })?;
    m.op("Concat", &[rows, columns], attrs! { axis: 0 })
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn sums_of_nothing_are_zero() {
        rewrites_to(
            &REWRITE,
            "g (uint32[2,0] a, uint32[0,3] b) => (uint32[2,3] y) { y = MatMul (a, b) }",
            "g (uint32[2,0] a, uint32[0,3] b) => (uint32[2,3] y) {
                z = Constant <value = uint32 {0}> () s = Constant <value_ints = [2, 3]> ()
                y = Expand (z, s) }",
        );
    }

    #[test]
    fn sizes_may_be_symbolic() {
        rewrites_to(
            &REWRITE,
            "g (float[B,2,0] a, float[B,0,3] b) => (float[B,2,3] y) { y = MatMul (a, b) }",
            "g (float[B,2,0] a, float[B,0,3] b) => (float[B,2,3] y) {
                v0 = Shape <start = 0, end = -1> (a) v1 = Shape <start = -1> (b)
                v2 = Concat <axis = 0> (v0, v1) z = Constant <value_float: float = 0> ()
                y = Expand (z, v2) }",
        );
    }

    #[test]
    fn products_stay() {
        for text in [
            "g (float[2,N] a, float[N,3] b) => (float[2,3] y) { y = MatMul (a, b) }",
            "g (float[B,2,0] a, float[0,3] b) => (float[B,2,3] y) { y = MatMul (a, b) }",
        ] {
            stays(&REWRITE, text);
        }
    }
}
