//! `ScatterElements` under its old name.

use std::panic::Location;

use onnx::{Builder, Node, Op, attrs};

use super::{Lack, Results, operand};

pub(super) fn renamed(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    if node.attrs.iter().any(|(name, _)| *name != "axis") {
        return Err(Lack::Because("it combines elements"));
    }
    let axis = onnx::fold::axis(node.int("axis", 0), b.rank(x)).map_err(Lack::Because)?;
    let old = (Op::onnx("Scatter"), node.inputs.clone(), attrs! { axis: axis as i64 });
    let types = vec![b.ty(x).clone()];
    Ok(b.emit_typed(old, types, Location::caller()))
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::at_opset;

    #[test]
    fn updates_along_an_axis_had_another_name() {
        for attrs in ["<axis = 1>", "<axis = -1>"] {
            let text = format!(
                "g (float[2,3] x, int64[2,1] i, float[2,1] u) => (float[2,3] y) {{
                    y = ScatterElements {attrs} (x, i, u) }}"
            );
            let found = at_opset(&text, 10);
            assert!(found.contains("Scatter <axis: int = 1> (x, i, u)"), "{found}");
        }
    }
}
