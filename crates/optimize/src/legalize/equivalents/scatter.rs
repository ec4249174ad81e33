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
