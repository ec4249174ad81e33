//! Loops that rules build, with a single body for any number of iterations.

use std::panic::Location;

use onnx::{Op, ValueId, attrs};
use tensor::{Dim, Tensor, Type};

use crate::rules::Result;
use crate::{Context, Parts};

/// The results of an iteration: the values passed to the next one, and those appended to the
/// stacks. For a whole loop, the values that the last iteration passed on, and the stacks along a
/// new first axis.
#[derive(Debug)]
pub(crate) struct Iteration {
    pub(crate) carry: Vec<Parts>,
    pub(crate) stack: Vec<Parts>,
}

/// Runs `body` for every number below `trips`. The body takes the number as a vector with one
/// element.
#[track_caller]
pub(crate) fn repeat(
    cx: &mut Context<'_>,
    trips: &Dim,
    carry: &[Parts],
    body: impl FnOnce(&mut Context<'_>, ValueId, &[Parts]) -> Result<Iteration>,
) -> Result<Iteration> {
    let at = Location::caller();
    let types = types(cx, carry);
    let mut stack = Vec::new();
    let block = cx.block(|cx, block| {
        let [number, condition] = cx.loop_inputs(block);
        let inputs = cx.inputs(block, types);
        let number = cx.unsqueeze(number, &[0])?;
        let result = body(cx, number, &unpack(&inputs, carry))?;
        stack.clone_from(&result.stack);
        let outputs = result.carry.iter().chain(&result.stack).flat_map(|e| e.flat());
        Ok(std::iter::once(condition).chain(outputs).collect())
    })?;
    let trips = number(cx, trips)?;
    let results = emit(cx, trips, carry, &stack, block, at)?;
    let (carried, stacked) = results.split_at(carry.iter().flat_map(|e| e.flat()).count());
    Ok(Iteration { carry: unpack(carried, carry), stack: unpack(stacked, &stack) })
}

/// Runs `body` while its condition holds, but at most `limit` times.
#[track_caller]
pub(crate) fn repeat_while(
    cx: &mut Context<'_>,
    limit: &Dim,
    carry: &[Parts],
    body: impl FnOnce(&mut Context<'_>, &[Parts]) -> Result<(ValueId, Vec<Parts>)>,
) -> Result<Vec<Parts>> {
    let at = Location::caller();
    let types = types(cx, carry);
    let block = cx.block(|cx, block| {
        cx.loop_inputs(block);
        let inputs = cx.inputs(block, types);
        let (go_on, result) = body(cx, &unpack(&inputs, carry))?;
        let outputs = result.iter().flat_map(|e| e.flat());
        Ok(std::iter::once(go_on).chain(outputs).collect())
    })?;
    let limit = number(cx, limit)?;
    let results = emit(cx, limit, carry, &[], block, at)?;
    Ok(unpack(&results, carry))
}

/// Returns a size as a scalar.
#[track_caller]
fn number(cx: &mut Context<'_>, size: &Dim) -> Result<ValueId> {
    let size = cx.dims(std::slice::from_ref(size))?;
    Ok(cx.squeeze(size, &[0])?)
}

fn emit(
    cx: &mut Context<'_>,
    trips: ValueId,
    carry: &[Parts],
    stack: &[Parts],
    body: onnx::BlockId,
    at: &'static Location<'static>,
) -> Result {
    let go_on = cx.constant(Tensor::bools(&[], &[true]));
    let carried = carry.iter().flat_map(|e| e.flat());
    let inputs: Vec<_> = [trips, go_on].into_iter().chain(carried).map(Some).collect();
    let count = inputs.len() - 2 + stack.iter().flat_map(|e| e.flat()).count();
    Ok(cx.emit(Op::onnx("Loop"), inputs, attrs! { body: body }, count, at)?)
}

fn types(cx: &Context<'_>, entries: &[Parts]) -> Vec<Type> {
    entries.iter().flat_map(|e| e.flat()).map(|v| cx.ty(v).clone()).collect()
}

/// Groups values like the parts of `like`.
fn unpack(values: &[ValueId], like: &[Parts]) -> Vec<Parts> {
    let mut values = values.iter().copied();
    let grouped = like.iter().map_while(|like| {
        let re = values.next()?;
        Some(Parts::new(re, like.im().and_then(|_| values.next())))
    });
    grouped.collect()
}
