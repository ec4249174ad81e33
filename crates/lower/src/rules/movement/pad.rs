//! pad[padding_config](x, value) → Pad, after Slice for what is cut off; padding between elements
//! puts each element into a row of its own and pads that

use onnx::{ValueId, attrs};
use tensor::Dim;

use crate::rules::Result;
use crate::{Context, RuleError};

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
        match between.as_known() {
            Some(0) => {}
            Some(between) => value = spread(cx, value, fill, axis, between)?,
            None => {
                return Err(RuleError::unsupported("symbolic interior padding is not supported"));
            }
        }
        low.push(before.clone());
        high.push(after.clone());
    }
    Ok(vec![edges(cx, value, fill, &low, &high)?])
}

/// `value` with `low` and `high` fill values at the two ends of each axis, or with as many elements
/// less where they are negative.
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
    // Cutting comes last: an axis may be padded on one side and cut beyond its elements on the other.
    let shape = cx.shape(value).to_vec();
    let cut: Vec<usize> =
        (0..shape.len()).filter(|&i| cut_low[i] != ZERO || cut_high[i] != ZERO).collect();
    let axes: Vec<i64> = cut.iter().map(|&i| i as i64).collect();
    let starts: Vec<Dim> = cut.iter().map(|&i| cut_low[i].clone()).collect();
    // Counted from the end of the axis, which works for any size.
    let ends: Vec<Dim> = cut
        .iter()
        .map(|&i| match cut_high[i] {
            ZERO => Dim::Known(i64::MAX),
            _ => -cut_high[i].clone(),
        })
        .collect();
    cx.slice(value, &axes, &starts, &ends, &vec![1; cut.len()])
}

/// What is cut off and what is added; a symbolic amount is taken to be added.
fn split_sign(amounts: &[Dim]) -> (Vec<Dim>, Vec<Dim>) {
    let split = |amount: &Dim| match amount {
        Dim::Known(n) if *n < 0 => (Dim::Known(-n), ZERO),
        other => (ZERO, other.clone()),
    };
    amounts.iter().map(split).unzip()
}

/// Puts `between` fill values after every element but the last along `axis`.
#[track_caller]
pub(crate) fn spread(
    cx: &mut Context<'_>,
    value: ValueId,
    fill: ValueId,
    axis: usize,
    between: i64,
) -> Result<ValueId> {
    let shape = cx.shape(value).to_vec();
    let size = shape[axis].clone();
    if matches!(size, Dim::Known(0 | 1)) {
        return Ok(value);
    }
    let inner = axis as i64 + 1;
    let rows = cx.unsqueeze(value, &[inner])?;
    let mut pads = vec![0; 2 * (shape.len() + 1)];
    pads[shape.len() + 1 + axis + 1] = between;
    let pads = cx.i64s(&pads);
    let rows = cx.op("Pad", &[rows, pads, fill], attrs! { mode: "constant" })?;
    let mut merged = shape;
    merged[axis] = size * Dim::Known(between + 1);
    let merged = cx.reshape(rows, &merged)?;
    cx.slice(merged, &[axis as i64], &[ZERO], &[Dim::Known(-between)], &[1])
}
