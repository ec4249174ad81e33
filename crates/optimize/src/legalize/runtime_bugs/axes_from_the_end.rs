//! Reductions count their axes from the front.
//!
//! If an operand is empty, onnxruntime's kernels do not recognise axes that are counted from the end. The
//! result then has the shape of the operand.

use onnx::NodeId;
use tensor::Dim;

use super::Bug;
use crate::legalize::{Error, Target, Work};

pub(super) static BUG: Bug = Bug {
    name: "axes_from_the_end",
    target: Target::OnnxRuntime,
    roots: &[
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    ],
    avoid,
};

fn avoid(work: &mut Work<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph.node(id);
    let (Some(x), Some(axes)) = (node.input(0), node.input(1)) else { return Ok(()) };
    let has_elements = |size: &Dim| size.as_known().is_some_and(|size| size > 0);
    if work.graph.ty(x).shape.iter().all(has_elements) {
        return Ok(());
    }
    let known = onnx::fold::known(work.graph, axes).and_then(|axes| axes.to_i64s());
    let Some(mut axes) = known.filter(|axes| axes.iter().any(|axis| *axis < 0)) else {
        return Ok(());
    };
    let rank = work.graph.ty(x).rank() as i64;
    for axis in axes.iter_mut().filter(|axis| **axis < 0) {
        *axis += rank;
    }
    let axes = work.builder(id, Some(id)).i64s(&axes);
    work.graph.set_input(id, 1, Some(axes));
    Ok(())
}
