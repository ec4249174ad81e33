//! `Trilu` as a selection by row and column.

use onnx::{Attrs, Builder, Node, Result, ValueId, attrs};
use tensor::DType;

use super::{Results, operand};

pub(super) fn trilu(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let rank = b.rank(x) as i64;
    let (rows, columns) = (places(b, x, rank - 2)?, places(b, x, rank - 1)?);
    let rows = b.unsqueeze(rows, &[1])?;
    let diagonal = match node.input(1) {
        Some(k) => b.op("Add", &[rows, k], Attrs::new())?,
        None => rows,
    };
    let upper = node.int("upper", 1) != 0;
    let kept = if upper { "GreaterOrEqual" } else { "LessOrEqual" };
    let kept = b.op(kept, &[columns, diagonal], Attrs::new())?;
    let zero = b.dtype(x);
    let zero = b.scalar(zero, 0.0)?;
    Ok(vec![b.op("Where", &[kept, x, zero], Attrs::new())?])
}

/// Returns the iota along an axis of `x`: 0, 1, …
fn places(b: &mut Builder<'_>, x: ValueId, axis: i64) -> Result<ValueId> {
    let size = b.op("Shape", &[x], attrs! { start: axis, end: axis + 1 })?;
    let size = b.squeeze(size, &[0])?;
    let (zero, one) = (b.int(DType::I64, 0)?, b.int(DType::I64, 1)?);
    b.op("Range", &[zero, size, one], Attrs::new())
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::at_opset;

    #[test]
    fn triangles_are_selected_by_their_side_of_the_diagonal() {
        for (attrs, op) in [
            ("", "GreaterOrEqual"),
            ("<upper = 1>", "GreaterOrEqual"),
            ("<upper = 0>", "LessOrEqual"),
        ] {
            let text = format!("g (float[3,3] x) => (float[3,3] y) {{ y = Trilu {attrs} (x) }}");
            let found = at_opset(&text, 13);
            assert!(found.contains(op), "{found}");
        }
    }
}
