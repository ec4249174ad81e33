//! `x * sigmoid(a * x)` in double precision → `-(-x * sigmoid(a * x))`.
//!
//! onnxruntime's `QuickGeluFusion` turns it into one node, which has no kernel for doubles, so the
//! model cannot be loaded.

use onnx::formula::formulas;
use onnx::{Graph, NodeId, ValueId};
use tensor::DType;

use crate::Roots;
use crate::legalize::{Error, Legalizer, made_by};
use crate::targets::Bug;

pub(super) static BUG: Bug = Bug { name: "double_silu", roots: Roots::Named(&["Mul"]), avoid };

fn avoid(work: &mut Legalizer<'_>, product: NodeId) -> Result<(), Error> {
    let node = work.graph().node(product);
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Ok(()) };
    if work.graph().ty(node.outputs[0]).dtype != DType::F64 {
        return Ok(());
    }
    let (x, gate) = match (is_gate(work.graph(), b, a), is_gate(work.graph(), a, b)) {
        (true, _) => (a, b),
        (_, true) => (b, a),
        _ => return Ok(()),
    };
    let result = formulas(&mut work.builder(product), [x, gate], |[x, gate]| [-(-x * gate)])?;
    Ok(work.substitute(product, &result)?)
}

/// Returns `true` if a value is the sigmoid of `x`, or of a multiple of it.
fn is_gate(graph: &Graph, value: ValueId, x: ValueId) -> bool {
    let inner = made_by(graph, value, "Sigmoid").and_then(|sigmoid| sigmoid.input(0));
    inner.is_some_and(|inner| {
        let scaled = made_by(graph, inner, "Mul");
        inner == x || scaled.is_some_and(|scaled| scaled.inputs.contains(&Some(x)))
    })
}
