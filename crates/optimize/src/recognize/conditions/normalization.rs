//! Normalisations: the normalised axes and parameters of matching size.

use onnx::{Attrs, ValueId};
use tensor::division::product;
use tensor::{DType, Dim};

use super::{Condition, missed};
use crate::Skip;
use crate::movement::{AxisMap, Movement};
use crate::recognize::found::Found;
use crate::recognize::{Form, Forms, tensor_of};

/// The largest scale of ones that is worth storing, in elements.
const MOST_ONES: usize = 1 << 14;

/// Returns the condition of a normalisation.
pub(super) fn of(op: &str) -> Condition {
    match op {
        "GroupNormalization" => of_groups,
        "InstanceNormalization" => of_channels,
        _ => of_last_axes,
    }
}

/// Checks a normalisation over the last axes, whose scale and bias have the size of these axes.
fn of_last_axes(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let (shape, dtype) = operand(found, FrontAxes::MayCome)?;
    let rank = shape.len();
    let first = match (found.axes("axes"), found.int("axis")) {
        (Some(axes), _) => {
            let first = rank - axes.len();
            if !axes.iter().copied().eq(first..rank) {
                return Err(missed("the axes are not the last ones"));
            }
            if axes.len() > 1 && first == 2 && found.has("one") && shape[1].as_known().is_some() {
                return Err("it has a parameter for each channel".into());
            }
            found.set_attr("axis", first as i64 - rank as i64);
            first
        }
        (None, Some(axis)) => {
            usize::try_from(axis + rank as i64).map_err(|_| "the axis is out of range")?
        }
        (None, None) => return Err("there are no axes".into()),
    };
    let normalized = shape[first..].to_vec();
    let sizes = Dim::all_known(&normalized);
    let mut has_rows = false;
    for name in ["scale", "bias"] {
        let Some((value, placement)) = found.placed(name) else { continue };
        let ty = found.m.ty(value).clone();
        let aligned = placement.is_aligned(&ty.shape, found.shape()?.len());
        if aligned && is_of_rows(found, value, &shape, first) {
            has_rows = true;
            continue;
        }
        if has_rows {
            return Err(unfit(found, "the bias has another shape than the scale"));
        }
        if let Some(sizes) = sizes.as_deref()
            && repeat(found, name, sizes, dtype)?
        {
            continue;
        }
        let inner = ty.shape.len().min(normalized.len());
        let (front, back) = ty.shape.split_at(ty.shape.len() - inner);
        if !aligned || back != normalized || front.iter().any(|dim| *dim != Dim::Known(1)) {
            return Err(unfit(
                found,
                "the shape of the scale or bias is not that of the normalised axes",
            ));
        }
        flatten(found, name, sizes.as_deref(), dtype)?;
    }
    if found.has("one") {
        let unknown = || missed("the size of the normalised axes is not known");
        fill(found, "one", &sizes.ok_or_else(unknown)?, dtype, 1.0)?;
    }
    Ok(())
}

/// Returns `true` if `LayerNormalization` with another scale for each row, or for each example, is not
/// known to be faster than separate operators.
pub(crate) fn is_slow_by_rows(forms: &Forms, dtype: DType) -> bool {
    let op = "LayerNormalization";
    forms.of(op) == Form::Elementary
        || !forms.target.measured.is_better(op, "scales of rows", dtype, forms.finite)
}

/// Returns `true` if a scale or a bias varies by row, and the target's kernel supports that. It requires a scale and a bias of the same shape.
fn is_of_rows(found: &Found<'_, '_>, value: ValueId, shape: &[Dim], first: usize) -> bool {
    let ty = found.m.ty(value);
    let fits = ty.rank() == shape.len()
        && first == 2
        && ty.shape[first..] == shape[first..]
        && ty.shape.iter().zip(shape).all(|(dim, of_x)| dim == of_x || *dim == Dim::Known(1))
        && ty.shape[..first].iter().any(|dim| *dim != Dim::Known(1));
    let fits_other = || {
        let scale = found.value("scale").map(|scale| &found.m.ty(scale).shape);
        scale.is_none_or(|scale| *scale == ty.shape)
    };
    fits && fits_other() && !is_slow_by_rows(found.m.forms(), ty.dtype)
}

/// Checks a normalisation over all axes except the first and the channel axis, with a scale and a
/// bias per channel.
fn of_channels(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    if found.has("grouped") {
        return of_groups(found);
    }
    if found.has("target") {
        return of_examples(found);
    }
    let (shape, dtype) = operand(found, FrontAxes::Count)?;
    let rank = shape.len();
    // A reshape behind a norm may drop an axis of size one.
    if found.value("turned").is_some_and(|turned| found.m.ty(turned).rank() != rank) {
        return Err(missed("the norm has other axes than its scale or bias"));
    }
    let channel = match (found.axes("axes"), found.ints("back")) {
        (Some(axes), _) => {
            let mut kept = (0..rank).filter(|axis| !axes.contains(axis));
            let (Some(0), Some(channel), None) = (kept.next(), kept.next(), kept.next()) else {
                return Err(missed("it keeps other axes than the first one and the channels"));
            };
            channel
        }
        // The position to which the second axis moves.
        (None, Some(back)) => {
            back.iter().position(|axis| *axis == 1).ok_or("axes are not in order")?
        }
        (None, None) => return Err("there are no axes".into()),
    };
    if rank < 3 {
        return Err("there are no axes beside the channels".into());
    }
    align(found, &shape, dtype)?;
    if found.has("x") {
        let first = if is_of_groups(found, &shape, channel) { 2 } else { 1 };
        turn(found, channel, first, rank);
    }
    parameters(found, &shape, channel, dtype)
}

/// Checks a normalisation over all axes except the first, whose scale and bias remain separate
/// nodes.
fn of_examples(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let (shape, dtype) = operand(found, FrontAxes::Count)?;
    let rank = shape.len();
    let all = found.axes("axes").is_some_and(|axes| axes.iter().copied().eq(1..rank));
    if rank < 3 || !all {
        return Err("it is not of all axes but the first one".into());
    }
    let parameters = ["factor", "addend"].into_iter().filter_map(|name| found.value(name));
    let normalized = product(&shape[1..]);
    if parameters.into_iter().any(|value| product(&found.m.ty(value).shape) == normalized) {
        return Err("it is a layer norm".into());
    }
    align(found, &shape, dtype)?;
    groups_in_rows(found, 1, dtype)
}

/// Sets the shape `[N, groups, elements of a group]`, and scales and biases without effect. An empty
/// batch requires the size of a group to be known, because -1 cannot be inferred.
fn groups_in_rows(found: &mut Found<'_, '_>, groups: i64, dtype: DType) -> Result<(), Skip> {
    let each = found.count("axes").and_then(|count| count.as_known()).unwrap_or(-1);
    let target = found.m.i64s(&[0, groups, each]);
    found.set_value("target", target);
    without_effect(found, groups, dtype)
}

/// Sets a scale of ones and a bias of zeros, if the replacement has them.
fn without_effect(found: &mut Found<'_, '_>, size: i64, dtype: DType) -> Result<(), Skip> {
    fill(found, "one", &[size], dtype, 1.0)?;
    fill(found, "zero", &[size], dtype, 0.0)
}

/// Reshapes a scale and a bias that remain separate nodes, so that their axes align with those of
/// the result.
fn align(found: &mut Found<'_, '_>, shape: &[Dim], dtype: DType) -> Result<(), Skip> {
    for name in ["factor", "addend"] {
        let Some((value, placement)) = found.placed(name) else { continue };
        let ty = found.m.ty(value);
        if ty.dtype != dtype {
            return Err(missed("the scale has a different type"));
        }
        if placement.is_aligned(&ty.shape, shape.len()) {
            continue;
        }
        let mut sizes = vec![1; shape.len()];
        let axes: Vec<usize> = placement.axes(&ty.shape).into_iter().flatten().collect();
        let dims = ty.shape.iter().filter(|dim| **dim != Dim::Known(1));
        let known: Option<Vec<i64>> = dims.map(Dim::as_known).collect();
        let known = known.filter(|known| known.len() == axes.len() && axes.is_sorted());
        let known = known.ok_or_else(|| missed("the scale is arranged differently"))?;
        for (axis, size) in axes.into_iter().zip(known) {
            sizes[axis] = size;
        }
        let target = found.m.i64s(&sizes);
        let moved = found.m.op("Reshape", &[value, target], Attrs::new())?;
        found.set_value(name, moved);
    }
    Ok(())
}

/// Returns `true` if `channel` and the axis after it result from splitting one axis into groups of
/// channels.
fn is_of_groups(found: &Found<'_, '_>, shape: &[Dim], channel: usize) -> bool {
    let reshape = found.value("x").and_then(|x| found.m.producer(x, &["Reshape"]));
    let Some(source) = reshape.and_then(|node| node.input(0)) else { return false };
    let [front @ .., all] = &found.m.ty(source).shape[..] else { return false };
    let Some((front_here, [groups, each])) = shape.split_at_checked(channel) else { return false };
    front == front_here && *all == groups.clone() * each.clone()
}

/// The first opset whose `GroupNormalization` has a scale per channel. Earlier opsets have one per
/// group.
const SCALE_FOR_EACH_CHANNEL: i64 = 21;

/// Checks a normalisation over groups of channels, where the channels are the last axis.
fn of_groups(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    if found.has("split") {
        return of_split_channels(found);
    }
    let (shape, dtype) = operand(found, FrontAxes::Count)?;
    if found.has("groups") && found.m.forms().opset < SCALE_FOR_EACH_CHANNEL {
        return Err("the opset has a scale for each group".into());
    }
    let (rank, channel) = (shape.len(), shape.len() - 1);
    if let (Some(grouped), Some(x)) = (found.value("grouped"), found.value("x")) {
        let of_x = found.m.producer(grouped, &["Reshape"]).and_then(|node| node.input(0));
        let inner = found.m.ty(grouped).shape.clone();
        // The groups are the second-to-last axis.
        let axes: Vec<usize> = (1..=rank).filter(|axis| *axis != channel).collect();
        let same = inner.len() == rank + 1 && inner[..channel] == shape[..channel];
        if of_x != Some(x) || !same || found.axes("axes") != Some(axes.as_slice()) {
            return Err(missed("the groups are not those of the last axis"));
        }
        let groups = inner[channel].as_known().ok_or_else(|| missed("the groups are not known"))?;
        found.set_attr("groups", groups);
        if found.has("target") {
            turn(found, channel, 1, rank);
            return groups_in_rows(found, groups, dtype);
        }
    }
    turn(found, channel, 1, rank);
    parameters(found, &shape, channel, dtype)
}

/// Checks a normalisation over groups of channels that have their own axis, followed by the
/// channels of a group.
fn of_split_channels(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    if found.m.forms().opset < SCALE_FOR_EACH_CHANNEL {
        return Err("the opset has a scale for each group".into());
    }
    let split = found.value("split").ok_or("there is no operand")?;
    let (inner, dtype) = (found.m.ty(split).shape.clone(), found.m.ty(split).dtype);
    let source = found.m.producer(split, &["Reshape"]).and_then(|node| node.input(0));
    let x = source.ok_or("there are no groups")?;
    let shape = found.m.ty(x).shape.clone();
    let (rank, axes) = (shape.len(), found.axes("axes").ok_or("there are no axes")?);
    let mut kept = (1..inner.len()).filter(|axis| !axes.contains(axis));
    let (Some(channel), None) = (kept.next(), kept.next()) else {
        return Err("there are no groups".into());
    };
    let is_split = rank >= 3
        && rank + 1 == inner.len()
        && inner == found.shape()?
        && channel < rank
        && !axes.contains(&0)
        && shape[..channel] == inner[..channel]
        && shape[channel + 1..] == inner[channel + 2..]
        && shape[channel] == inner[channel].clone() * inner[channel + 1].clone();
    if !is_split {
        return Err("there are no groups".into());
    }
    let known = |dim: &Dim| dim.as_known().ok_or_else(|| missed("the groups are not known"));
    let (groups, size) = (known(&inner[channel])?, known(&shape[channel])?);
    for name in ["scale", "bias"] {
        let Some((value, placement)) = found.placed(name) else { continue };
        let dims = &found.m.ty(value).shape;
        let front = inner.len().saturating_sub(dims.len());
        let is_of_channels = dims.iter().enumerate().all(|(axis, dim)| {
            *dim == Dim::Known(1) || (channel..=channel + 1).contains(&(front + axis))
        });
        let is_parameter = is_of_channels && product(dims) == Dim::Known(size);
        if !is_parameter || !placement.is_aligned(dims, inner.len()) {
            return Err(missed("the scale is not one for each channel"));
        }
        flatten(found, name, Some(&[size]), dtype)?;
    }
    without_effect(found, size, dtype)?;
    found.set_value("x", x);
    found.set_attr("groups", groups);
    turn(found, channel, 1, rank);
    Ok(())
}

/// The treatment of leading unit axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrontAxes {
    /// Axes count from the front, so leading unit axes matter.
    Count,
    /// Axes count from the back, so leading unit axes are allowed.
    MayCome,
}

/// Returns the shape and type of the normalised operand.
fn operand(found: &mut Found<'_, '_>, front_axes: FrontAxes) -> Result<(Vec<Dim>, DType), Skip> {
    let (shape, dtype) = (found.shape()?, found.dtype()?);
    if found.count("axes") == Some(Dim::Known(0)) {
        return Err("nothing is normalised".into());
    }
    let Some((x, placement)) = found.placed("x") else { return Ok((shape, dtype)) };
    let ty = found.m.ty(x).clone();
    if !placement.is_aligned(&ty.shape, shape.len()) {
        return Err("the axes are arranged differently".into());
    }
    // The result may have leading unit axes.
    let fits = |front: &&[Dim]| {
        front.is_empty()
            || front_axes == FrontAxes::MayCome && front.iter().all(|dim| *dim == Dim::Known(1))
    };
    let front = shape.strip_suffix(ty.shape.as_slice()).filter(fits);
    if !front.ok_or("the axes are arranged differently")?.is_empty() {
        found.move_result(vec![Movement::Reshape(ty.shape.clone(), shape)]);
    }
    Ok((ty.shape, ty.dtype))
}

/// Returns the reason why a normalisation cannot be one node. It is not reported as missed if the
/// normalisation is already one node.
fn unfit(found: &Found<'_, '_>, reason: &'static str) -> Skip {
    if found.has("axes") { missed(reason) } else { Skip::Because(reason) }
}

/// Moves `count` axes, starting at `channel`, to the second position and back. The order of axes
/// that are normalised together is free. The channels of a group stay after it, as in a
/// channels-first layout.
fn turn(found: &mut Found<'_, '_>, channel: usize, count: usize, rank: usize) {
    let first = channel..channel + count;
    let others = (1..rank).filter(|axis| !first.contains(axis));
    let perm = [0].into_iter().chain(first.clone()).chain(others).collect();
    let perm = AxisMap::permutation(perm);
    found.set_attr("perm", perm.attr());
    found.set_attr("back", perm.inverse().attr());
}

/// Checks that scale and bias have one element per channel.
fn parameters(
    found: &mut Found<'_, '_>,
    shape: &[Dim],
    channel: usize,
    dtype: DType,
) -> Result<(), Skip> {
    let size = shape[channel].as_known();
    let size = size.ok_or_else(|| missed("the number of channels is not known"))?;
    for name in ["scale", "bias"] {
        let Some((value, placement)) = found.placed(name) else { continue };
        let dims = &found.m.ty(value).shape;
        // A normalisation that is already recognised, and now absorbs its bias, keeps its scale.
        if name == "scale" && found.has("turned") && found.has("bias") {
            continue;
        }
        let fits = dims.iter().any(|dim| *dim == shape[channel])
            && placement.only_axis(dims) == Some(channel);
        if repeat(found, name, &[size], dtype)? {
            continue;
        }
        if !fits {
            return Err(unfit(found, "the scale is not one for each channel"));
        }
        flatten(found, name, Some(&[size]), dtype)?;
    }
    without_effect(found, size, dtype)
}

/// Replaces the value called `name`, if it is a bias of equal numbers, by a constant of the given sizes.
fn repeat(
    found: &mut Found<'_, '_>,
    name: &str,
    sizes: &[i64],
    dtype: DType,
) -> Result<bool, Skip> {
    let is_bias = |value: &ValueId| name == "bias" && found.m.ty(*value).dtype == dtype;
    let number = found.value(name).filter(is_bias).and_then(|value| found.m.number(value));
    if let Some(number) = number {
        fill(found, name, sizes, dtype, number)?;
    }
    Ok(number.is_some())
}

/// Reshapes the value called `name` to the given sizes, without surrounding unit axes.
fn flatten(
    found: &mut Found<'_, '_>,
    name: &str,
    sizes: Option<&[i64]>,
    dtype: DType,
) -> Result<(), Skip> {
    let Some(value) = found.value(name) else { return Ok(()) };
    if found.m.ty(value).dtype != dtype {
        return Err(unfit(found, "the scale has a different type"));
    }
    let rank = found.m.ty(value).rank();
    if sizes.is_some_and(|sizes| sizes.len() == rank) {
        return Ok(());
    }
    // If the unit axes were only added for the product, uses the value before that.
    let source = found.m.producer(value, &["Reshape", "Unsqueeze"]).and_then(|node| node.input(0));
    let is_flat = |value: ValueId| {
        let dims = found.m.ty(value).shape.iter().map(Dim::as_known);
        sizes.is_some_and(|sizes| dims.eq(sizes.iter().map(|size| Some(*size))))
    };
    if let Some(source) = source.filter(|source| is_flat(*source)) {
        found.set_value(name, source);
        return Ok(());
    }
    let sizes = sizes.ok_or_else(|| missed("the size of the scale is not known"))?;
    let target = found.m.i64s(sizes);
    let flat = found.m.op("Reshape", &[value, target], Attrs::new())?;
    found.set_value(name, flat);
    Ok(())
}

/// Binds `name` to a tensor of the given sizes that is filled with `value`.
pub(in crate::recognize) fn fill(
    found: &mut Found<'_, '_>,
    name: &str,
    sizes: &[i64],
    dtype: DType,
    value: f64,
) -> Result<(), Skip> {
    if !found.has(name) {
        return Ok(());
    }
    let sizes: Option<Vec<usize>> = sizes.iter().map(|size| usize::try_from(*size).ok()).collect();
    let sizes = sizes.ok_or("a size is negative")?;
    let count = sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
    let count = count.filter(|count| *count <= MOST_ONES);
    let count = count.ok_or_else(|| missed("a scale of ones would be large"))?;
    let tensor = tensor_of(dtype, &sizes, std::iter::repeat_n(value, count));
    let tensor = found.m.tensor(tensor.ok_or("no such constant")?);
    found.set_value(name, tensor);
    Ok(())
}
