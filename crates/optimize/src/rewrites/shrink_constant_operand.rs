//! A constant operand with equal elements along an axis → the constant with size one along this
//! axis. Operators broadcast it.

use std::borrow::Cow;
use std::sync::Arc;

use onnx::ValueId;
use tensor::Tensor;

use super::drop_operand_broadcast::{self, gives};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite {
    name: "shrink_constant_operand",
    roots: drop_operand_broadcast::REWRITE.roots,
    try_at,
};

/// The maximum size of a constant that is examined, in bytes. Masks up to this size are computed at
/// export.
const LIMIT: usize = 1 << 20;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    if m.ty(y).dtype.is_float() && matches!(m.root().op.name, "Max" | "Min") {
        return Err("the sign of zero may change".into());
    }
    let mut inputs = m.root().inputs.clone();
    for i in 0..inputs.len() {
        let Some(constant) = inputs[i].and_then(|v| m.constant(v)) else { continue };
        let (Some(small), shape) = (shrunk(constant), constant.shape().to_vec()) else { continue };
        // Tries all ranks, because the constant may determine the rank of the result.
        let ones = small.shape().iter().take_while(|size| **size == 1).count();
        for front in (0..=ones).rev() {
            let Ok(tensor) = small.reshaped(&small.shape()[front..]) else { continue };
            if tensor.shape() == shape {
                continue; // A copy is not progress: large constants are not interned.
            }
            let value = m.tensor(tensor);
            let kept = inputs[i].replace(value);
            if gives(m, &inputs, &m.ty(y).shape) {
                break;
            }
            inputs[i] = kept;
        }
    }
    Skip::when(inputs == m.root().inputs, "no constant repeats itself")?;
    Ok(vec![m.like(&m.root().clone(), inputs)?])
}

/// Returns the tensor with size one along axes whose elements are all equal.
fn shrunk(tensor: &Tensor) -> Option<Tensor> {
    let size = tensor.dtype().byte_len(1);
    if tensor.byte_len() > LIMIT {
        return None;
    }
    let bytes = tensor.bytes()?;
    if tensor.is_empty() || bytes.len() != size * tensor.len() {
        return None;
    }
    let (mut shape, mut bytes) = (tensor.shape().to_vec(), Cow::Borrowed(&*bytes));
    for axis in 0..shape.len() {
        let inner = size * shape[axis + 1..].iter().product::<usize>();
        let block = inner * shape[axis];
        let is_same = |block: &[u8]| block.chunks(inner).all(|part| part == &block[..inner]);
        if shape[axis] > 1 && bytes.chunks(block).all(is_same) {
            let first: Vec<&[u8]> = bytes.chunks(block).map(|block| &block[..inner]).collect();
            bytes = Cow::Owned(first.concat());
            shape[axis] = 1;
        }
    }
    let is_smaller = shape != tensor.shape() || shape.first() == Some(&1);
    is_smaller
        .then(|| Tensor::new(tensor.dtype(), &shape, Arc::new(bytes.into_owned())).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn repeated_elements_are_broadcast() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3] x, float[1,2,3] u) => (float[2,3] y, float[1,2,3] z) {
                c = Constant <value = float[2,3] {1, 2, 3, 1, 2, 3}> ()
                y = Add (x, c)
                d = Constant <value = float[1,2,3] {4, 4, 4, 4, 4, 4}> ()
                z = Mul (u, d)
            }",
            "g (float[2,3] x, float[1,2,3] u) => (float[2,3] y, float[1,2,3] z) {
                c = Constant <value = float[3] {1, 2, 3}> ()
                y = Add (x, c)
                d = Constant <value = float {4}> ()
                z = Mul (u, d)
            }",
        );
    }

    #[test]
    fn a_large_constant_that_determines_the_rank_is_unchanged() {
        let numbers: Vec<String> = (0..25).map(|i| i.to_string()).collect();
        let numbers = numbers.join(", ");
        stays(
            &REWRITE,
            &format!(
                "g (float x) => (float[1,5,5] y) {{
                    c = Constant <value = float[1,5,5] {{{numbers}}}> ()
                    y = Add (x, c)
                }}"
            ),
        );
    }

    #[test]
    fn constants_that_determine_the_shape_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[1] x) => (float[2] y) {
                c = Constant <value = float[2] {1, 1}> ()
                y = Add (x, c)
            }",
        );
        stays(
            &REWRITE,
            "g (float[2,2] x) => (float[2,2] y) {
                c = Constant <value = float[2,2] {1, 2, 3, 4}> ()
                y = Add (x, c)
            }",
        );
    }

    #[test]
    fn empty_constants_and_single_elements_are_unchanged() {
        for (shape, numbers) in [("0,2", ""), ("2", "1, 2"), ("", "1")] {
            stays(
                &REWRITE,
                &format!(
                    "g (float[{shape}] x) => (float[{shape}] y) {{
                        c = Constant <value = float[{shape}] {{{numbers}}}> () y = Add (x, c) }}"
                )
                .replace("float[]", "float"),
            );
        }
    }
}
