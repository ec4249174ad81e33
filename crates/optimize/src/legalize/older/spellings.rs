//! Conversions of operands that used to be attributes, and of attributes that did not exist yet.

use onnx::operators::Axes;
use onnx::{Attr, Attrs, NodeId, ValueId, attrs, fold};
use tensor::{Dim, Tensor};

use super::super::Legalizer;
use super::super::equivalents::Lack;

/// Removes the attribute `name` of a node.
pub(super) fn drop_attr(work: &mut Legalizer<'_>, id: NodeId, name: &str) {
    work.edit.attrs_mut(id).retain(|(key, _)| *key != name);
}

/// Sets an attribute of a node.
pub(super) fn set_attr(work: &mut Legalizer<'_>, id: NodeId, name: &'static str, value: Attr) {
    drop_attr(work, id, name);
    let attrs = work.edit.attrs_mut(id);
    attrs.push((name, value));
    attrs.sort_by_key(|(key, _)| *key);
}

/// Returns the integers of a value, if they are known.
pub(super) fn integers(work: &Legalizer<'_>, value: ValueId) -> Option<Vec<i64>> {
    work.graph().facts().constant(value)?.to_i64s()
}

/// Converts `ReduceMax (x, axes)` → `ReduceMax <axes = …> (x)`, and likewise for all operators with axes.
pub(super) fn axes_attribute(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id);
    let (x, axes) = (node.input(0), node.input(1));
    let is_reduction = node.operator().axes == Axes::Reduce;
    let keeps = node.int("noop_with_empty_axes", 0) != 0 || !is_reduction && axes.is_some();
    let axes = match axes {
        Some(axes) => integers(work, axes).ok_or(Lack::Because("its axes are computed"))?,
        None => Vec::new(),
    };
    if axes.is_empty() && keeps {
        let x = x.ok_or(Lack::Because("it has no operand"))?;
        let result = work.builder(id).op("Identity", &[x], Attrs::new())?;
        return Ok(work.substitute(id, &[result])?);
    }
    work.edit.drop_inputs(id, 1);
    drop_attr(work, id, "noop_with_empty_axes");
    if !axes.is_empty() {
        set_attr(work, id, "axes", Attr::Ints(axes));
    }
    Ok(())
}

/// Converts `Shape <start = 1> (x)` → `Slice (Shape (x), …)`.
pub(super) fn slice_of_shape(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id);
    if node.attrs.is_empty() {
        return Ok(());
    }
    let x = node.input(0).ok_or(Lack::Because("it has no operand"))?;
    let (start, end) = (node.int("start", 0), node.int("end", i64::MAX));
    let mut b = work.builder(id);
    let all = b.op("Shape", &[x], Attrs::new())?;
    let (start, end, axes) = (b.i64s(&[start]), b.i64s(&[end]), b.i64s(&[0]));
    let result = b.op("Slice", &[all, start, end, axes], Attrs::new())?;
    Ok(work.substitute(id, &[result])?)
}

/// Drops `allowzero`. Without it, a zero in a shape copies the size of the operand's axis.
pub(super) fn zeros_that_copy(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id);
    if node.int("allowzero", 0) != 0 {
        let (Some(x), Some(shape)) = (node.input(0), node.input(1)) else { return Ok(()) };
        let from = &work.graph().ty(x).shape;
        let copies = |axis: usize| from.get(axis) == Some(&Dim::Known(0));
        let zeros = integers(work, shape).unwrap_or_default();
        let mut zeros = zeros.iter().enumerate().filter(|(_, size)| **size == 0);
        if zeros.any(|(axis, _)| !copies(axis)) {
            // The result has no elements, so any source will do.
            let dtype = work.graph().ty(x).dtype;
            let zero = Tensor::scalar(dtype, 0.0).and_then(|zero| zero.reshaped(&[1]).ok());
            let zero = zero.ok_or(Lack::Because("its result is empty"))?;
            let mut b = work.builder(id);
            let result = b.op("ConstantOfShape", &[shape], attrs! { value: zero })?;
            return Ok(work.substitute(id, &[result])?);
        }
    }
    drop_attr(work, id, "allowzero");
    Ok(())
}

/// Converts `Split <num_outputs = 3> (x)` → `Split (x)`, with explicit sizes if they differ.
pub(super) fn equal_parts(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id);
    if node.attr("num_outputs").is_none() {
        return Ok(());
    }
    let rank = node.input(0).map_or(0, |x| work.graph().ty(x).rank());
    let axis = fold::axis(node.int("axis", 0), rank).map_err(Lack::Because)?;
    let size = |value: &ValueId| work.graph().ty(*value).shape.get(axis).cloned();
    let sizes: Option<Vec<Dim>> = node.outputs.iter().map(size).collect();
    let sizes = sizes.ok_or(Lack::Because("the sizes of its parts are unknown"))?;
    if sizes.iter().any(|size| *size != sizes[0]) {
        let known = Dim::all_known(&sizes);
        let known = known.ok_or(Lack::Because("its parts differ in size"))?;
        let (attrs, count) = (attrs! { axis: axis as i64 }, known.len());
        let x = node.input(0).ok_or(Lack::Because("it has no operand"))?;
        let mut b = work.builder(id);
        let known = b.i64s(&known);
        let parts = b.op_many("Split", &[x, known], attrs, count)?;
        return Ok(work.substitute(id, &parts)?);
    }
    drop_attr(work, id, "num_outputs");
    Ok(())
}

/// Converts `Pad (x, pads, value, axes)` → `Pad (x, all pads, value)`.
pub(super) fn all_axes(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id).clone();
    let (Some(x), Some(pads), Some(axes)) = (node.input(0), node.input(1), node.input(3)) else {
        return Ok(());
    };
    let rank = work.graph().ty(x).rank();
    let axes = integers(work, axes).ok_or(Lack::Because("its axes are computed"))?;
    let count = axes.len();
    // The index of each axis's amount in `pads`. A zero follows the last amount.
    let mut places = vec![2 * count as i64; 2 * rank];
    for (place, axis) in axes.iter().enumerate() {
        let axis = fold::axis(*axis, rank).map_err(Lack::Because)?;
        places[axis] = place as i64;
        places[rank + axis] = (count + place) as i64;
    }
    let known = integers(work, pads);
    let mut b = work.builder(id);
    let all = if let Some(mut known) = known {
        known.push(0);
        let amount = |place: &i64| usize::try_from(*place).ok().and_then(|at| known.get(at));
        let all: Option<Vec<i64>> = places.iter().map(|place| amount(place).copied()).collect();
        let all = all.ok_or(Lack::Because("an axis has no amount"))?;
        b.i64s(&all)
    } else {
        let (zero, places) = (b.i64s(&[0]), b.i64s(&places));
        let more = b.op("Concat", &[pads, zero], attrs! { axis: 0 })?;
        b.op("Gather", &[more, places], Attrs::new())?
    };
    work.edit.drop_inputs(id, 3);
    work.set_input(id, 1, all);
    if work.graph().node(id).input(2).is_none() {
        work.edit.drop_inputs(id, 2);
    }
    Ok(())
}

/// Converts `DFT (x, length, axis)` → `DFT <axis = …> (x, length)`.
pub(super) fn axis_of_dft(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Lack> {
    let node = work.graph().node(id);
    let rank = node.input(0).map_or(0, |x| work.graph().ty(x).rank());
    let axis = match node.input(2) {
        Some(axis) => {
            let known = integers(work, axis).and_then(|axes| axes.first().copied());
            known.ok_or(Lack::Because("its axis is computed"))?
        }
        None => -2,
    };
    let axis = fold::axis(axis, rank).map_err(Lack::Because)?;
    let operands = if node.input(1).is_some() { 2 } else { 1 };
    work.edit.drop_inputs(id, operands);
    set_attr(work, id, "axis", Attr::Int(axis as i64));
    Ok(())
}
