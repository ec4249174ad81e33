//! The rounds of counter-based random number generators, as one Scan.

use std::sync::Arc;

use onnx::{ValueId, attrs};
use tensor::{DType, Dim, Tensor, Type};

use crate::{Context, Result, RuleError};

/// Applies `round` to `state` repeatedly. Each column of `schedule` holds one number per
/// application. The types of the state must not change.
#[track_caller]
pub(crate) fn repeat(
    cx: &mut Context<'_>,
    state: &[ValueId],
    schedule: &[Vec<u32>],
    round: impl FnOnce(&mut Context<'_>, &[ValueId], &[ValueId]) -> Result,
) -> Result {
    let mut columns = Vec::with_capacity(schedule.len());
    for column in schedule {
        let bytes: Vec<u8> = column.iter().flat_map(|word| word.to_le_bytes()).collect();
        let tensor = Tensor::new(DType::U32, &[column.len()], Arc::new(bytes));
        let tensor = tensor.map_err(|error| RuleError::Internal(error.to_string()))?;
        columns.push(cx.constant(tensor));
    }
    let types: Vec<Type> = state.iter().map(|value| cx.ty(*value).clone()).collect();
    let words = vec![Type::new(DType::U32, []); columns.len()];
    let body = cx.block(|cx, block| {
        let (state, words) = (cx.inputs(block, types), cx.inputs(block, words));
        round(cx, &state, &words)
    })?;
    let attrs = attrs! { body: body, num_scan_inputs: columns.len() as i64 };
    Ok(cx.op_many("Scan", &[state, &columns].concat(), attrs, state.len())?)
}

/// Broadcasts each of the values to `shape`.
#[track_caller]
pub(crate) fn broadcast<const N: usize>(
    cx: &mut Context<'_>,
    values: [ValueId; N],
    shape: &[Dim],
) -> Result<[ValueId; N]> {
    let mut result = values;
    for value in &mut result {
        *value = cx.expand(*value, shape)?;
    }
    Ok(result)
}
