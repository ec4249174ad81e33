//! Results that a `Scan` stacks: their sizes, known before it runs.

use onnx::{Builder, Graph, Node, Result, ValueId, attrs};
use tensor::{Dim, Type};

/// A size of a stacked result: a number, or an axis of an operand of the scan.
pub(super) enum Size {
    Known(i64),
    Of(ValueId, usize),
}

/// Returns the sizes of a result of the scan `node`, or `None` if no operand has one of them.
pub(super) fn sizes(graph: &Graph, node: &Node, ty: &Type) -> Option<Vec<Size>> {
    let of_operand = |size: &Dim| {
        node.inputs.iter().flatten().find_map(|operand| {
            let axis = graph.ty(*operand).shape.iter().position(|other| other == size)?;
            Some(Size::Of(*operand, axis))
        })
    };
    let size = |size: &Dim| size.as_known().map(Size::Known).or_else(|| of_operand(size));
    ty.shape.iter().map(size).collect()
}

/// Emits a shape, with the vector that `size_of` emits for each size of an operand.
#[track_caller]
pub(super) fn shape(
    b: &mut Builder<'_>,
    sizes: &[Size],
    size_of: fn(&mut Builder<'_>, ValueId, usize) -> Result<ValueId>,
) -> Result<ValueId> {
    let mut parts = Vec::new();
    for size in sizes {
        parts.push(match *size {
            Size::Known(size) => b.i64s(&[size]),
            Size::Of(value, axis) => size_of(b, value, axis)?,
        });
    }
    b.op("Concat", &parts, attrs! { axis: 0 })
}

/// Returns `true` if a scan may read or stack along another axis than the first.
pub(super) fn has_axes(scan: &Node) -> bool {
    ["scan_input_axes", "scan_output_axes"].iter().any(|name| scan.attr(name).is_some())
}
