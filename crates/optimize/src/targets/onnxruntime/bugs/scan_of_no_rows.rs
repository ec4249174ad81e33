//! Moves a `Scan` that may have no rows into a branch that is not taken in that case.
//!
//! onnxruntime fails because it slices the first row without checking that it exists. Without rows,
//! carried values are unchanged and stacked results are empty.

use std::panic::Location;

use onnx::{Attrs, Builder, NodeId, Op, Result, ValueId, attrs};
use tensor::bounds::at_least;
use tensor::{DType, Type};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;
use crate::targets::stacked::{Size, has_axes, shape, sizes};

pub(super) static BUG: Bug = Bug { name: "scan_of_no_rows", roots: Roots::Named(&["Scan"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> std::result::Result<(), Error> {
    let node = work.graph().node(id).clone();
    let scanned = usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or_default();
    let carried = node.inputs.len().saturating_sub(scanned);
    let operands: Option<Vec<ValueId>> = node.inputs.iter().copied().collect();
    let Some(operands) = operands else { return Ok(()) };
    let Some((carry, rows)) = operands.split_at_checked(carried) else { return Ok(()) };
    let Some(first) = rows.first().copied().filter(|_| !has_axes(&node)) else { return Ok(()) };
    let length = &work.graph().ty(first).shape[0];
    // JAX assumes every symbolic size to be at least one. A larger bound was stated by the user.
    if length.as_known().is_some() || at_least(length, 2) {
        return Ok(());
    }
    let stacked = node.outputs[carried..].iter().map(|v| work.graph().ty(*v).clone());
    let stacked: Vec<Type> = stacked.collect();
    let sizes: Option<Vec<_>> = stacked.iter().map(|ty| sizes(work.graph(), &node, ty)).collect();
    let Some(sizes) = sizes else { return Ok(()) };

    // The body moves to the new node.
    let attrs = std::mem::take(work.edit.attrs_mut(id));
    let mut b = work.builder(id);
    let zero = b.scalar(DType::I64, 0.0)?;
    let count = size_of(&mut b, first, 0)?;
    let count = b.squeeze(count, &[0])?;
    let some = b.op("Greater", &[count, zero], Attrs::new())?;
    let yes = b.body(|b, _| b.op_many("Scan", &operands, attrs, node.outputs.len()))?;
    let no = b.body(|b, _| without_rows(b, carry, &stacked, &sizes))?;
    let branches = attrs! { then_branch: yes, else_branch: no };
    let count = node.outputs.len();
    let results = b.emit(Op::onnx("If"), vec![Some(some)], branches, count, Location::caller())?;
    Ok(work.substitute(id, &results)?)
}

/// Returns a size of a value as a vector.
fn size_of(b: &mut Builder<'_>, value: ValueId, axis: usize) -> Result<ValueId> {
    let (shape, index) = (b.op("Shape", &[value], Attrs::new())?, b.i64s(&[axis as i64]));
    b.op("Gather", &[shape, index], attrs! { axis: 0 })
}

fn without_rows(
    b: &mut Builder<'_>,
    carry: &[ValueId],
    stacked: &[Type],
    sizes: &[Vec<Size>],
) -> Result<Vec<ValueId>> {
    let mut results = Vec::new();
    for value in carry {
        results.push(b.op("Identity", &[*value], Attrs::new())?);
    }
    for (ty, sizes) in stacked.iter().zip(sizes) {
        let shape = shape(b, sizes, size_of)?;
        let nothing = b.scalar(ty.dtype, 0.0)?;
        results.push(b.op("Expand", &[nothing, shape], Attrs::new())?);
    }
    Ok(results)
}
