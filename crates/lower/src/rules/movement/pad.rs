//! pad[padding_config](x, value) → Pad, then Slice for negative amounts; for padding between
//! elements, each element becomes a row of its own that is padded

use onnx::{ValueId, attrs};
use tensor::Dim;
use tensor::bounds::at_least;

use crate::{Context, Result, RuleError};

const ZERO: Dim = Dim::Known(0);

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (value, fill) = (x[0], x[1]);
    let config = cx.param::<Vec<Vec<Dim>>>("padding_config")?;
    let mut value = value;
    let mut low = Vec::with_capacity(config.len());
    let mut high = Vec::with_capacity(config.len());
    for (axis, entry) in config.iter().enumerate() {
        let [before, after, between] = entry.as_slice() else {
            return Err(RuleError::Internal("padding_config has no triples".to_owned()));
        };
        let Some(between) = between.as_known() else {
            return Err(RuleError::unsupported("symbolic interior padding is not supported"));
        };
        let (mut before, mut after) = (before.clone(), after.clone());
        // Every element is padded, so the padding after the last or before the first one may count
        // as part of the padding of that end.
        let includes = |end: &Dim| end.as_known().is_some_and(|n| n >= between);
        if between == 0 || is_single(cx, value, axis) {
            // Nothing is between elements.
        } else if !at_least(&cx.shape(value)[axis], 1) {
            // There may be no last element.
            value = spread(cx, value, fill, axis, between)?;
        } else if includes(&after) {
            value = rows(cx, value, fill, axis, [0, between])?;
            after = after - Dim::Known(between);
        } else if includes(&before) {
            value = rows(cx, value, fill, axis, [between, 0])?;
            before = before - Dim::Known(between);
        } else {
            value = spread(cx, value, fill, axis, between)?;
        }
        low.push(before);
        high.push(after);
    }
    Ok(vec![edges(cx, value, fill, &low, &high)?])
}

/// Pads the ends of each axis with `low` and `high` fill values, and removes elements where these
/// are negative.
#[track_caller]
pub(crate) fn edges(
    cx: &mut Context<'_>,
    value: ValueId,
    fill: ValueId,
    low: &[Dim],
    high: &[Dim],
) -> Result<ValueId> {
    let mut value = value;
    let (cut_low, add_low) = split_sign(low);
    let (cut_high, add_high) = split_sign(high);
    if add_low.iter().chain(&add_high).any(|d| *d != ZERO) {
        let pads = cx.dims(&[add_low, add_high].concat())?;
        value = cx.op("Pad", &[value, pads, fill], attrs! { mode: "constant" })?;
    }
    // Slicing comes last: an axis may be padded on one side and cut beyond its elements on the
    // other.
    let shape = cx.shape(value).to_vec();
    let cut: Vec<usize> =
        (0..shape.len()).filter(|&i| cut_low[i] != ZERO || cut_high[i] != ZERO).collect();
    let axes: Vec<i64> = cut.iter().map(|&i| i as i64).collect();
    let starts: Vec<Dim> = cut.iter().map(|&i| cut_low[i].clone()).collect();
    // Ends are counted from the end of the axis, which works for any size.
    let ends: Vec<Dim> = cut
        .iter()
        .map(|&i| match cut_high[i] {
            ZERO => Dim::Known(i64::MAX),
            _ => -cut_high[i].clone(),
        })
        .collect();
    cx.slice(value, &axes, &starts, &ends, &vec![1; cut.len()])
}

/// Splits amounts into those to remove and those to add. A symbolic amount is assumed to be added.
fn split_sign(amounts: &[Dim]) -> (Vec<Dim>, Vec<Dim>) {
    let split = |amount: &Dim| match amount {
        Dim::Known(n) if *n < 0 => (Dim::Known(-n), ZERO),
        other => (ZERO, other.clone()),
    };
    amounts.iter().map(split).unzip()
}

/// Inserts `between` fill values after every element but the last along `axis`.
#[track_caller]
pub(crate) fn spread(
    cx: &mut Context<'_>,
    value: ValueId,
    fill: ValueId,
    axis: usize,
    between: i64,
) -> Result<ValueId> {
    if is_single(cx, value, axis) {
        return Ok(value);
    }
    let rows = rows(cx, value, fill, axis, [0, between])?;
    cx.slice(rows, &[axis as i64], &[ZERO], &[Dim::Known(-between)], &[1])
}

/// Returns `true` if `axis` has at most one element, so that nothing is between elements.
fn is_single(cx: &Context<'_>, value: ValueId, axis: usize) -> bool {
    matches!(cx.shape(value)[axis], Dim::Known(0 | 1))
}

/// Inserts fill values before and after every element along `axis`.
#[track_caller]
fn rows(
    cx: &mut Context<'_>,
    value: ValueId,
    fill: ValueId,
    axis: usize,
    [before, after]: [i64; 2],
) -> Result<ValueId> {
    let mut merged = cx.shape(value).to_vec();
    let rows = cx.unsqueeze(value, &[axis as i64 + 1])?;
    let mut pads = vec![0; 2 * (merged.len() + 1)];
    pads[axis + 1] = before;
    pads[merged.len() + 1 + axis + 1] = after;
    let pads = cx.i64s(&pads);
    let rows = cx.op("Pad", &[rows, pads, fill], attrs! { mode: "constant" })?;
    merged[axis] = merged[axis].clone() * Dim::Known(before + 1 + after);
    cx.reshape(rows, &merged)
}
