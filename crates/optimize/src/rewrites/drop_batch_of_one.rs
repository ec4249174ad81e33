//! `MatMul(x, w)` with a constant `w: [1, k, n]` → the same with `w: [k, n]`, the form that
//! quantisers look for.

use onnx::ValueId;

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("drop_batch_of_one", &["MatMul"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (x, w) = (m.operand(0)?, m.operand(1)?);
    Skip::when(m.graph().tensor(w).is_none(), "the right operand is not a constant")?;
    let shape = m.ty(w).static_shape().ok_or("the constant has no static shape")?;
    let [batch @ .., rows, columns] = shape.as_slice() else {
        return Err("the constant is a vector".into());
    };
    if batch.is_empty() || batch.iter().any(|size| *size != 1) {
        return Err("the constant has no batch of one".into());
    }
    let matrix = [*rows, *columns];
    Skip::when(matrix.contains(&0), "the constant is empty")?;
    Skip::when(m.ty(x).rank() < shape.len(), "the batch is an axis of the result")?;
    let target = m.i64s(&matrix);
    let matrix = m.op("Reshape", &[w, target], onnx::Attrs::new())?;
    Ok(vec![m.like(&m.root().clone(), vec![Some(x), Some(matrix)])?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn a_unit_batch_is_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[B,3,2] x) => (float[B,3,2] y) <float[1,2,2] w = {1, 2, 3, 4}> {
                y = MatMul (x, w)
            }",
            "g (float[B,3,2] x) => (float[B,3,2] y) <float[1,2,2] w = {1, 2, 3, 4}> {
                s = Constant <value_ints = [2, 2]> ()
                v1 = Reshape (w, s)
                y = MatMul (x, v1)
            }",
        );
    }

    #[test]
    fn empty_constants_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[3,1,0] x) => (float[3,1,2] y) <float[1,0,2] w = {}> {
                y = MatMul (x, w)
            }",
        );
    }

    #[test]
    fn other_batches_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[3,2] x) => (float[1,3,2] y) <float[1,2,2] w = {1, 2, 3, 4}> {
                y = MatMul (x, w)
            }",
        );
        stays(
            &REWRITE,
            "g (float[2,3,2] x) => (float[2,3,1] y) <float[2,2,1] w = {1, 2, 3, 4}> {
                y = MatMul (x, w)
            }",
        );
    }
}
