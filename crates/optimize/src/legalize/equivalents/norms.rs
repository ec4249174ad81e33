//! `RMSNormalization` by its definition, in a spelling that runtimes fuse into one node.

use onnx::{Attrs, Builder, Node, attrs};
use tensor::DType;

use super::{Results, operand};

pub(super) fn root_mean_square(b: &mut Builder<'_>, node: &Node) -> Results {
    let (x, scale) = (operand(node, 0)?, operand(node, 1)?);
    let dtype = b.dtype(x);
    // Squares of half-precision numbers overflow.
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let (x, scale) = (b.cast(x, wide)?, b.cast(scale, wide)?);
    let rank = b.rank(x) as i64;
    let first = node.int("axis", -1);
    let last = if first < 0 { 0 } else { rank };
    let axes = b.i64s(&(first..last).collect::<Vec<_>>());
    let (two, epsilon) = (b.scalar(wide, 2.0)?, node.float("epsilon", 1e-5));
    let epsilon = b.scalar(wide, epsilon)?;
    let square = b.op("Pow", &[x, two], Attrs::new())?;
    let mean = b.op("ReduceMean", &[square, axes], attrs! { keepdims: 1 })?;
    let sum = b.op("Add", &[mean, epsilon], Attrs::new())?;
    let root = b.op("Sqrt", &[sum], Attrs::new())?;
    let normal = b.op("Div", &[x, root], Attrs::new())?;
    let result = b.op("Mul", &[normal, scale], Attrs::new())?;
    Ok(vec![b.cast(result, dtype)?])
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::at_opset;

    #[test]
    fn norms_are_over_all_axes_from_theirs_on() {
        for (axis, axes) in
            [("0", "[0, 1, 2]"), ("1", "[1, 2]"), ("-1", "[-1]"), ("-2", "[-2, -1]")]
        {
            let scale = match axis {
                "0" => "2,3,4",
                "1" | "-2" => "3,4",
                _ => "4",
            };
            let text = format!(
                "g (float[2,3,4] x, float[{scale}] s) => (float[2,3,4] y) {{
                y = RMSNormalization <axis = {axis}> (x, s) }}"
            );
            let found = at_opset(&text, 22);
            assert!(found.contains(axes), "{found}");
        }
    }
}
