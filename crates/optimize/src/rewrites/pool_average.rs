//! `AveragePool(x) * n / n` → `AveragePool(x)`: the sum over a window, divided by its size, or by
//! its number of elements without padding, which is the sum over a window of ones.

use onnx::ValueId;

use crate::rewrite::{either_order, operands};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("pool_average", &["Div"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (sum, count) = (m.operand(0)?, m.operand(1)?);
    let (pool, size) = summed(m, sum).ok_or("the dividend is not the sum over a window")?;
    Skip::when(m.ty(m.result()?).shape != m.ty(pool).shape, "the pooling is broadcast")?;
    match number(m, count) {
        Some(count) if count == size => return Ok(vec![pool]),
        Some(_) => return Err("the sum is divided by a different number".into()),
        None => {}
    }
    let (ones, ones_size) = summed(m, count).ok_or("the divisor is not known")?;
    let node = |v| m.producer(v, &["AveragePool"]);
    let (Some(pooled), Some(counted)) = (node(pool), node(ones)) else {
        return Err("the divisor is not known".into());
    };
    let ([x], [filled]) = (operands(pooled)?, operands(counted)?);
    let space = |v| m.ty(v).shape.get(2..).map(<[_]>::to_vec);
    let includes_padding = pooled.int("count_include_pad", 0) == 1;
    if !is_ones(m, filled)
        || ones_size != size
        || pooled.attrs != counted.attrs
        || space(x) != space(filled)
        || !includes_padding
    {
        return Err("the divisor is not the number of elements in a window".into());
    }
    let mut pooled = pooled.clone();
    pooled.attrs.retain(|(name, _)| *name != "count_include_pad");
    let inputs = pooled.inputs.clone();
    Ok(vec![m.like(&pooled, inputs)?])
}

/// Returns the only number of a constant, if it is positive.
fn number(m: &Match<'_>, value: ValueId) -> Option<f64> {
    m.number(value).filter(|n| *n > 0.0)
}

/// Returns the pooling and the number whose product is `value`.
fn summed(m: &Match<'_>, value: ValueId) -> Option<(ValueId, f64)> {
    let is_pool = |v| m.producer(v, &["AveragePool"]).is_some();
    let (pool, size) =
        either_order(m.producer(value, &["Mul"])?, |a, b| is_pool(a) && !is_pool(b))?;
    Some((pool, number(m, size)?))
}

/// Returns `true` if every element of `value` is one.
fn is_ones(m: &Match<'_>, value: ValueId) -> bool {
    let source = m.producer(value, &["Expand"]).and_then(|node| node.input(0));
    number(m, source.unwrap_or(value)) == Some(1.0)
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
    fn a_sum_divided_by_the_window_size_is_an_average() {
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
    fn padding_may_be_excluded_from_the_count() {
        let pads = "kernel_shape = [2, 2], pads = [0, 0, 1, 1]";
        let ones = vec!["1"; 16].join(", ");
        rewrites_to(
            &REWRITE,
            &format!(
                "g (float[1,2,4,4] x) => (float[1,2,4,4] y) {{
                    four = Constant <value_float: float = 4> ()
                    p = AveragePool <{pads}, count_include_pad = 1> (x)
                    s = Mul (p, four)
                    o = Constant <value = float[1,1,4,4] {{{ones}}}> ()
                    q = AveragePool <{pads}, count_include_pad = 1> (o)
                    n = Mul (q, four)
                    y = Div (s, n)
                }}"
            ),
            &format!(
                "g (float[1,2,4,4] x) => (float[1,2,4,4] y) {{ y = AveragePool <{pads}> (x) }}"
            ),
        );
    }

    #[test]
    fn another_divisor_is_unchanged() {
        stays(&REWRITE, &text("5"));
    }

    /// Sums over windows with padding, divided by sums over windows of `ones`.
    fn counted(ones: &str, counted: &str, factor: &str, excluded: i64) -> String {
        let pads = "kernel_shape = [2, 2], pads = [0, 0, 1, 1]";
        format!(
            "g (float[1,2,4,4] x) => (float[1,2,4,4] y) {{
                four = Constant <value_float: float = 4> () five = Constant <value_float: float = 5> ()
                p = AveragePool <{pads}, count_include_pad = {excluded}> (x)
                s = Mul (four, p)
                o = Constant <value = float[1,1,4,4] {{{ones}}}> ()
                q = AveragePool <{counted}, count_include_pad = {excluded}> (o)
                n = Mul (q, {factor})
                y = Div (s, n)
            }}"
        )
    }

    #[test]
    fn the_divisor_counts_the_elements_of_each_window() {
        let pads = "kernel_shape = [2, 2], pads = [0, 0, 1, 1]";
        let fill = |number: &str| vec![number; 16].join(", ");
        let ones = fill("1");
        let after = crate::testing::rewritten(&REWRITE, &counted(&ones, pads, "four", 1));
        assert!(!after.contains("Div"), "{after}");
        for text in [
            counted(&fill("2"), pads, "four", 1),
            counted(&ones.replacen('1', "2", 1), pads, "four", 1),
            counted(&ones, "kernel_shape = [2, 2], pads = [1, 1, 0, 0]", "four", 1),
            counted(&ones, pads, "five", 1),
            counted(&ones, pads, "four", 0),
        ] {
            stays(&REWRITE, &text);
        }
        // Windows over an array of another shape have as many elements.
        let wide = counted(&ones, pads, "four", 1)
            .replace("[1,2,4,4]", "[1,2,1,4]")
            .replace("float[1,1,4,4] {", "float[1,1,1,16] {")
            .replace("y = Div", "start = Constant <value_ints = [0]> () end = Constant <value_ints = [4]> () along = Constant <value_ints = [3]> () part = Slice (n, start, end, along) y = Div")
            .replace("(s, n)", "(s, part)");
        stays(&REWRITE, &wide);
    }

    #[test]
    fn sums_are_divided_by_positive_numbers() {
        stays(&REWRITE, &text("0").replace("float = 4", "float = 0"));
        stays(&REWRITE, &text("-4").replace("float = 4", "float = -4"));
    }
}
