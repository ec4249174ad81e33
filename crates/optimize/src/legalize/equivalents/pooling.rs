//! Average pooling in double precision, as sums of windows.

use onnx::{Attr, Attrs, Builder, Node, Result, ValueId};
use tensor::DType;

use super::windows::Windows;
use super::{Lack, Results, ones, operand};

pub(super) fn average(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let Some(Attr::Ints(kernel)) = node.attr("kernel_shape") else {
        return Err(Lack::Because("its attribute `kernel_shape` is missing"));
    };
    let windows = Windows::new(node, kernel.clone())?;
    let sum = sum(b, &windows, x)?;
    let count = if windows.is_padded() && node.int("count_include_pad", 0) == 0 {
        let shape = b.op("Shape", &[x], Attrs::new())?;
        let ones = ones(b, shape, DType::F64)?;
        self::sum(b, &windows, ones)?
    } else {
        #[expect(clippy::cast_precision_loss, reason = "a window has fewer elements")]
        let len = windows.len() as f64;
        b.scalar(DType::F64, len)?
    };
    Ok(vec![b.op("Div", &[sum, count], Attrs::new())?])
}

fn sum(b: &mut Builder<'_>, windows: &Windows, x: ValueId) -> Result<ValueId> {
    let padded = windows.pad(b, x)?;
    let slices = windows.slices(b, padded)?;
    b.op("Sum", &slices, Attrs::new())
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing::legalized;

    #[test]
    fn only_padded_windows_are_counted() {
        for (attrs, size, pads, counts) in [
            ("", 3, 0, 0),
            (", pads = [0, 0, 0, 0]", 3, 0, 0),
            (", pads = [1, 1, 0, 0]", 4, 2, 1),
            (", pads = [1, 1, 0, 0], count_include_pad = 1", 4, 1, 0),
        ] {
            let text = format!(
                "g (double[1,1,4,4] x) => (double[1,1,{size},{size}] y) {{
                    y = AveragePool <kernel_shape = [2, 2]{attrs}> (x) }}"
            );
            let shown = legalized(&text, Target::default());
            let count = |op: &str| shown.matches(&format!("{op}:f64")).count();
            assert_eq!((count("Pad"), count("ConstantOfShape")), (pads, counts), "{shown}");
        }
    }
}
