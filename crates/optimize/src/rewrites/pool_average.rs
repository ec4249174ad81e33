//! `AveragePool(x) * n / n` → `AveragePool(x)`: the sum over a window, divided by its size again.

use onnx::ValueId;
use tensor::Tensor;

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite { name: "pool_average", roots: &["Div"], try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (sum, count) = (m.operand(0)?, m.operand(1)?);
    let number = |v| m.constant(v).and_then(Tensor::splat).filter(|n| *n > 0.0);
    let count = number(count).ok_or("the divisor is not known")?;
    let node = m.producer(sum, &["Mul"]).ok_or("the dividend is not a product")?;
    let [Some(a), Some(b)] = *node.inputs.as_slice() else {
        return Err("an operand is left out".into());
    };
    let is_pool = |v| m.producer(v, &["AveragePool"]).is_some();
    let (pool, size) = match (is_pool(a), is_pool(b)) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        _ => return Err("no operand is a pooling".into()),
    };
    if number(size) != Some(count) {
        return Err("the sum is divided by another number".into());
    }
    if m.ty(m.result()?).shape != m.ty(pool).shape {
        return Err("the pooling is broadcast".into());
    }
    Ok(vec![pool])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    fn text(divisor: &str) -> String {
        format!(
            "g (float[1,2,4,4] x) => (float[1,2,3,3] y) {{
                four = Constant <value_float: float = 4> ()
                n = Constant <value_float: float = {divisor}> ()
                p = AveragePool <kernel_shape = [2, 2], count_include_pad = 1> (x)
                s = Mul (p, four)
                d = Div (s, n)
                y = Exp (d)
            }}"
        )
    }

    #[test]
    fn a_mean_is_a_mean() {
        rewrites_to(
            &REWRITE,
            &text("4"),
            "g (float[1,2,4,4] x) => (float[1,2,3,3] y) {
                p = AveragePool <kernel_shape = [2, 2], count_include_pad = 1> (x)
                y = Exp (p)
            }",
        );
    }

    #[test]
    fn another_divisor_stays() {
        stays(&REWRITE, &text("5"));
    }
}
