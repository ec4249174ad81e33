//! Loops that rules build, with a single body for any number of iterations.

use onnx::{BlockId, ValueId, attrs};
use tensor::{Dim, Tensor, Type};

use crate::{Context, Parts, Result};

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
    let types = types(cx, carry);
    let mut stack = Vec::new();
    let block = cx.block(|cx, block| {
        let [number, condition] = cx.loop_inputs(block);
        let inputs = cx.inputs(block, types);
        let number = cx.unsqueeze(number, &[0])?;
        let result = body(cx, number, &unpack(&inputs, carry))?;
        stack.clone_from(&result.stack);
        let outputs = flat(&result.carry).chain(flat(&result.stack));
        Ok(std::iter::once(condition).chain(outputs).collect())
    })?;
    let results = emit(cx, trips, carry, &stack, block)?;
    let (carried, stacked) = results.split_at(flat(carry).count());
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
    let types = types(cx, carry);
    let block = cx.block(|cx, block| {
        cx.loop_inputs(block);
        let inputs = cx.inputs(block, types);
        let (go_on, result) = body(cx, &unpack(&inputs, carry))?;
        Ok(std::iter::once(go_on).chain(flat(&result)).collect())
    })?;
    let results = emit(cx, limit, carry, &[], block)?;
    Ok(unpack(&results, carry))
}

/// Emits the loop. Returns the carried values, and then the stacks.
#[track_caller]
fn emit(
    cx: &mut Context<'_>,
    limit: &Dim,
    carry: &[Parts],
    stack: &[Parts],
    body: BlockId,
) -> Result {
    let trips = cx.size(limit)?;
    let go_on = cx.constant(Tensor::bools(&[], &[true]));
    let inputs: Vec<_> = [trips, go_on].into_iter().chain(flat(carry)).collect();
    let count = flat(carry).chain(flat(stack)).count();
    Ok(cx.op_many("Loop", &inputs, attrs! { body: body }, count)?)
}

fn flat(entries: &[Parts]) -> impl Iterator<Item = ValueId> {
    entries.iter().flat_map(|entry| entry.flat())
}

fn types(cx: &Context<'_>, entries: &[Parts]) -> Vec<Type> {
    flat(entries).map(|value| cx.ty(value).clone()).collect()
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
