//! gather, and the kinds of scatter that treat the parts differently: scatter-mul, scatter-max,
//! scatter-min → a Loop over the windows, since several may write to one position

use onnx::{Attrs, ValueId, attrs};
use tensor::division::product;
use tensor::{DType, Dim};

use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::rules::indexing::gather;
use crate::rules::indexing::indices::{Mode, Starts};
use crate::rules::indexing::scatter::{Scatter, choose};
use crate::rules::reduction::monoid::Monoid;
use crate::rules::windows::window::inverse;
use crate::{Context, Parts, Result};

pub(in crate::rules) fn gather(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let indices = x[1].re();
    let im = x[0].imaginary(cx)?;
    let re = gather::with_fill(cx, x[0].re(), indices, gather::fill)?;
    let im = gather::with_fill(cx, im, indices, gather::fill_imaginary)?;
    Ok(vec![Parts::Complex(re, im)])
}

pub(in crate::rules) fn scatter_mul(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scatter(cx, x, Monoid::Mul)
}

pub(in crate::rules) fn scatter_max(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scatter(cx, x, Monoid::Max)
}

pub(in crate::rules) fn scatter_min(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    scatter(cx, x, Monoid::Min)
}

fn scatter(cx: &mut Context<'_>, x: &[Parts], monoid: Monoid) -> Result<Vec<Parts>> {
    let (operand, indices, updates) = (x[0], x[1].re(), x[2]);
    if [operand, updates].iter().any(|v| cx.shape(v.re()).contains(&Dim::Known(0))) {
        return Ok(vec![x[0]]);
    }
    let scatter = Scatter::read(cx, operand.re(), indices, updates.re())?;
    let mode = Mode::read(cx, Mode::FillOrDrop)?;
    let starts = Starts::new(cx, indices, &scatter.limits, mode)?;
    let mut updates = updates.each(cx, |cx, part| scatter.arrange_updates(cx, part))?;
    if let Some(inside) = starts.inside {
        let identity = monoid.identity_like(cx, updates)?;
        updates = updates.zip_with(cx, identity, |cx, a, b| choose(cx, inside, a, b))?;
    }
    let order = scatter.order();
    let is_whole = scatter.indexed.is_empty();
    let operand = operand.each(cx, |cx, part| {
        let part = cx.transpose(part, &order)?;
        if is_whole { cx.unsqueeze(part, &[0]) } else { Ok(part) }
    })?;
    let first = cx.cast(starts.value, DType::I64)?;
    let first = scatter.columns(cx, first)?;
    let at = scatter.places(cx, first)?;

    let windows = product(&scatter.index_shape);
    // A window that was out of bounds writes back the elements that it finds, at a position that
    // another one may write to.
    let apart = cx.param("unique_indices")? && starts.inside.is_none();
    let result = if apart || windows == Dim::Known(1) {
        write(cx, operand, at, updates, monoid)?
    } else {
        let flat = |cx: &mut Context<'_>, value: ValueId| {
            let rest = &cx.shape(value)[scatter.index_shape.len()..];
            let shape = [std::slice::from_ref(&windows), rest].concat();
            cx.reshape(value, &shape)
        };
        let (at, updates) = (flat(cx, at)?, updates.each(cx, flat)?);
        let done = repeat(cx, &windows, &[operand], |cx, number, carry| {
            let at = cx.op("Gather", &[at, number], attrs! { axis: 0 })?;
            let update = updates.take(cx, 0, number)?;
            let next = write(cx, carry[0], at, update, monoid)?;
            Ok(Iteration { carry: vec![next], stack: Vec::new() })
        })?;
        done.carry[0]
    };
    let result = result.each(cx, |cx, part| {
        let part = if is_whole { cx.squeeze(part, &[0])? } else { part };
        cx.transpose(part, &inverse(&order))
    })?;
    Ok(vec![result])
}

/// Combines the updates into the elements of `operand` at `at`. No two positions are the same.
fn write(
    cx: &mut Context<'_>,
    operand: Parts,
    at: ValueId,
    updates: Parts,
    monoid: Monoid,
) -> Result<Parts> {
    let found = operand.each(cx, |cx, part| cx.op("GatherND", &[part, at], Attrs::new()))?;
    let updated = monoid.combine(cx, found, updates)?;
    operand.zip_with(cx, updated, |cx, part, new| {
        Ok(cx.op("ScatterND", &[part, at, new], Attrs::new())?)
    })
}
