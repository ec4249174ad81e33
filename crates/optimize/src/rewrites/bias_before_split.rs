//! `Reshape(MatMul(x, w)) + b` → `Reshape(MatMul(x, w) + b)`, if the reshape splits the last axis
//! into the shape of `b`. The product and its bias become adjacent, which is the order that
//! runtimes recognise.

use onnx::ValueId;
use tensor::Dim;

use crate::movement::{Movement, emit, reshaped};
use crate::rewrite::either_order;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("bias_before_split", &["Add"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    let (split, bias) = either_order(m.root(), |_, bias| m.graph().tensor(bias).is_some())
        .ok_or("neither operand is a constant")?;
    let reshape = m.producer(split, &["Reshape"]).ok_or("the other operand is not reshaped")?;
    let product = reshape.input(0).ok_or("an operand is left out")?;
    Skip::when(m.producer(product, &["MatMul"]).is_none(), "the reshaped value is not a product")?;
    Skip::when(!m.is_used_once(split), "the reshaped value has other readers")?;
    Skip::when(!m.is_used_once(product), "the product has other readers")?;
    let (whole, parts, tail) = (&m.ty(product).shape, &m.ty(split).shape, &m.ty(bias).shape);
    let Some(lead) = whole.len().checked_sub(1).filter(|lead| *lead <= parts.len()) else {
        return Err("the product is a number".into());
    };
    let size = tail.iter().fold(Dim::Known(1), |n, dim| n * dim.clone());
    if whole[lead] != size || parts[..lead] != whole[..lead] || parts[lead..] != tail[..] {
        return Err("the bias is not split like the last axis".into());
    }
    let old = m.graph().producer(split).into_iter().collect::<Vec<_>>();
    let (from, to) = (whole.clone(), m.ty(y).shape.clone());
    let bias = reshaped(m, bias, &[size])?;
    let sum = m.like(&m.root().clone(), vec![Some(product), Some(bias)])?;
    Ok(vec![emit(m, sum, &[Movement::Reshape(from, to)], &old)?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn heads_are_split_after_the_bias() {
        rewrites_to(
            &REWRITE,
            "g (float[B,3,5] x, float[5,4] w) => (float[B,3,2,2] y) <float[2,2] b = {1, 2, 3, 4}> {
                p = MatMul (x, w)
                s = Constant <value_ints = [0, 3, 2, 2]> ()
                r = Reshape (p, s)
                y = Add (r, b)
            }",
            "g (float[B,3,5] x, float[5,4] w) => (float[B,3,2,2] y) <float[2,2] b = {1, 2, 3, 4}> {
                p = MatMul (x, w)
                t = Constant <value_ints = [4]> ()
                v1 = Reshape (b, t)
                v2 = Add (p, v1)
                s = Constant <value_ints = [0, 3, 2, 2]> ()
                y = Reshape (v2, s)
            }",
        );
    }

    #[test]
    fn other_biases_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[3,5] x, float[5,4] w) => (float[3,2,2] y) <float[2] b = {1, 2}> {
                p = MatMul (x, w)
                s = Constant <value_ints = [3, 2, 2]> ()
                r = Reshape (p, s)
                y = Add (r, b)
            }",
        );
        for (whole, parts, tail) in
            [("2,3", "3,2,2,2", "2,2"), ("3", "3,2,2", "1,2,2"), ("0", "0,2,3", "2,3")]
        {
            let size = tail.split(',').map(|n| n.parse::<usize>().unwrap()).product();
            let bias = vec!["1"; size].join(", ");
            stays(
                &REWRITE,
                &format!(
                    "g (float[{whole},5] x, float[5,4] w) => (float[{parts}] y) <float[{tail}] b = {{{bias}}}> {{
                        p = MatMul (x, w)
                        s = Constant <value_ints = [{parts}]> ()
                        r = Reshape <allowzero = 1> (p, s)
                        y = Add (r, b)
                    }}"
                ),
            );
        }
    }

    #[test]
    fn products_with_other_readers_are_unchanged() {
        for shared in ["float[B,3,4] p", "float[B,3,2,2] r"] {
            stays(
                &REWRITE,
                &format!(
                    "g (float[B,3,5] x, float[5,4] w) => (float[B,3,2,2] y, {shared}) <float[2,2] b = {{1, 2, 3, 4}}> {{
                        p = MatMul (x, w)
                        s = Constant <value_ints = [0, 3, 2, 2]> ()
                        r = Reshape (p, s)
                        y = Add (b, r)
                    }}"
                ),
            );
        }
    }
}
