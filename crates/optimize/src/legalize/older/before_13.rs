//! Conversions to the forms of opsets 9 to 12.

use std::sync::Arc;

use onnx::{Attr, Attrs, NodeId, attrs, fold};
use tensor::{DType, Tensor};

use super::super::Legalizer;
use super::super::equivalents::{Lack, integer_order, operand};
use super::spellings::{drop_attr, integers, set_attr};

/// Returns the integers of the operand at `index`, if it is present.
fn known(
    work: &Legalizer<'_>,
    id: NodeId,
    index: usize,
    lack: &'static str,
) -> Result<Option<Vec<i64>>, Lack> {
    let value = work.graph().node(id).input(index);
    value.map(|value| integers(work, value).ok_or(Lack::Because(lack))).transpose()
}

/// Returns the rank of a node's first operand.
fn rank(work: &Legalizer<'_>, id: NodeId) -> usize {
    work.graph().node(id).input(0).map_or(0, |x| work.graph().ty(x).rank())
}

/// Converts `Split (x, sizes)` → `Split <split = …> (x)`.
pub(super) fn split_attribute(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    if let Some(sizes) = known(work, id, 1, "the sizes of its parts are computed")? {
        work.edit.drop_inputs(id, 1);
        set_attr(work, id, "split", Attr::Ints(sizes));
    }
    Ok(())
}

/// Moves the axis of a `Softmax` to the end, where flattening it with all axes that follow has no effect.
pub(super) fn last_axis(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let (node, rank) = (work.graph().node(id), rank(work, id));
    let (op, x) = (node.op.name, operand(node, 0)?);
    let axis = fold::axis(node.int("axis", -1), rank).map_err(Lack::Because)?;
    let last = rank - 1;
    if axis == last {
        set_attr(work, id, "axis", Attr::Int(last as i64));
        return Ok(());
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(axis, last);
    let mut b = work.builder(id);
    let moved = b.transpose(x, &perm)?;
    let result = b.op(op, &[moved], attrs! { axis: last as i64 })?;
    let result = b.transpose(result, &perm)?;
    Ok(work.substitute(id, &[result])?)
}

/// Converts `Resize (x, , , sizes)` → `Resize (x, [], [], sizes)`.
pub(super) fn all_operands(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    for index in [1, 2] {
        if work.graph().node(id).input(index).is_none() {
            let none = Tensor::new(DType::F32, &[0], Arc::new(Vec::new()));
            let none = none.map_err(|_| Lack::Because("it omits an operand"))?;
            let none = work.builder(id).constant(none);
            work.set_input(id, index, none);
        }
    }
    Ok(())
}

/// Converts `Clip (x, low, high)` → `Min (Max (x, low), high)`.
pub(super) fn max_and_min(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    work.replace(id, integer_order::limits)
}

/// Converts `Gemm (x, y)` → `Gemm (x, y, 0)`.
pub(super) fn zero_bias(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id).clone();
    if node.input(2).is_none() {
        let (x, y) = (operand(&node, 0)?, operand(&node, 1)?);
        let mut b = work.builder(id);
        let zero = b.dtype(x);
        let zero = b.scalar(zero, 0.0)?;
        let result = b.op("Gemm", &[x, y, zero], node.attrs)?;
        work.substitute(id, &[result])?;
    }
    Ok(())
}

/// Converts `Pad (x, pads, value)` → `Pad <pads = …, value = …> (x)`.
pub(super) fn pads_attribute(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let pads = known(work, id, 1, "its amounts are computed")?.unwrap_or_default();
    if let Some(value) = work.graph().node(id).input(2) {
        let value = work.graph().constant(value).and_then(Tensor::splat);
        #[expect(clippy::cast_possible_truncation, reason = "checked next")]
        let value = value.map(|value| (value, value as f32));
        let exact = value.filter(|(value, short)| f64::from(*short).to_bits() == value.to_bits());
        let (_, value) = exact.ok_or(Lack::Because("its value is not a constant in float32"))?;
        set_attr(work, id, "value", Attr::Float(value));
    }
    work.edit.drop_inputs(id, 1);
    set_attr(work, id, "pads", Attr::Ints(pads));
    Ok(())
}

/// Converts `TopK <largest = 0> (x, k)` → `Neg (TopK (Neg (x), k))`.
pub(super) fn largest(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id).clone();
    if node.int("largest", 1) == 0 {
        let (x, k) = (operand(&node, 0)?, operand(&node, 1)?);
        let mut b = work.builder(id);
        let negative = b.op("Neg", &[x], Attrs::new())?;
        let attrs = attrs! { axis: node.int("axis", -1) };
        let found = b.op_many("TopK", &[negative, k], attrs, 2)?;
        let values = b.op("Neg", &[found[0]], Attrs::new())?;
        return Ok(work.substitute(id, &[values, found[1]])?);
    }
    drop_attr(work, id, "largest");
    drop_attr(work, id, "sorted");
    Ok(())
}

/// Counts axes from the front.
pub(super) fn positive_axis(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id);
    let rank = match node.is("Unsqueeze") {
        true => work.graph().ty(node.outputs[0]).rank(),
        false => rank(work, id),
    };
    let positive = |axis: &i64| if *axis < 0 { axis + rank as i64 } else { *axis };
    for (name, value) in work.edit.attrs_mut(id) {
        match value {
            Attr::Int(axis) if *name == "axis" => *axis = positive(axis),
            Attr::Ints(axes) if *name == "axes" => *axes = axes.iter().map(positive).collect(),
            _ => {}
        }
    }
    Ok(())
}

/// Converts `Slice (x, starts, ends, axes)` → `Slice <starts = …, ends = …, axes = …> (x)`.
pub(super) fn bounds_attributes(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let lack = "its bounds are computed";
    let mut bounds = Vec::new();
    for (index, name) in [(1, "starts"), (2, "ends"), (3, "axes")] {
        if let Some(values) = known(work, id, index, lack)? {
            bounds.push((name, values));
        }
    }
    let steps = known(work, id, 4, lack)?.unwrap_or_default();
    if steps.iter().any(|step| *step != 1) {
        return Err(Lack::Because("its step is not 1"));
    }
    work.edit.drop_inputs(id, 1);
    for (name, values) in bounds {
        set_attr(work, id, name, Attr::Ints(values));
    }
    positive_axis(work, id)
}

/// Converts `TopK (x, k)` → `TopK <k = …> (x)`.
pub(super) fn count_attribute(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let count = known(work, id, 1, "its count is computed")?.and_then(|k| k.first().copied());
    let count = count.ok_or(Lack::Because("it has no count"))?;
    work.edit.drop_inputs(id, 1);
    set_attr(work, id, "k", Attr::Int(count));
    Ok(())
}
