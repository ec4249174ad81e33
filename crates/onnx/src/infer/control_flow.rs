//! `If`, `Loop` and `Scan`, whose types follow from their blocks.

use tensor::{DType, Dim, Type};

use super::call::Call;
use crate::{Block, Result, ValueId};
use tensor::bounds::{non_negative, same, same_type};

/// Checks the number of requested results.
fn expect_count(call: &Call<'_>, count: usize) -> Result<()> {
    if count != call.count {
        let reason = format!("the body has {count} results, but {} were requested", call.count);
        return Err(call.error(reason));
    }
    Ok(())
}

pub(crate) fn if_(call: &Call<'_>) -> Result<Vec<Type>> {
    call.dtype_is(0, DType::Bool)?;
    call.is_single(0)?;
    let (yes, no) = (call.block("then_branch")?, call.block("else_branch")?);
    let (a, b) = (yes.outputs().len(), no.outputs().len());
    if a != b {
        return Err(call.error(format!("the branches make {a} and {b} results")));
    }
    expect_count(call, a)?;
    let mut types = Vec::with_capacity(call.count);
    for (i, (a, b)) in yes.outputs().iter().zip(no.outputs()).enumerate() {
        let (a, b) = (call.graph.ty(*a), call.graph.ty(*b));
        if !same_type(a, b) {
            return Err(
                call.error(format!("result {i} is {a} in one branch, but {b} in the other"))
            );
        }
        types.push(a.clone());
    }
    Ok(types)
}

/// Checks that a formal input of a body has the type of the value that is passed to it.
fn check_passed(call: &Call<'_>, index: usize, passed: &Type, formal: ValueId) -> Result<()> {
    let formal = call.graph.ty(formal);
    if !same_type(passed, formal) {
        return Err(
            call.error(format!("input {index} gives {passed}, but the body takes {formal}"))
        );
    }
    Ok(())
}

/// Returns the types of carried values, which the body both takes and returns.
fn carry(
    call: &Call<'_>,
    first: usize,
    formal: &[ValueId],
    returned: &[ValueId],
) -> Result<Vec<Type>> {
    let mut types = Vec::with_capacity(call.count);
    for (i, (formal, returned)) in formal.iter().zip(returned).enumerate() {
        let (passed, returned) = (call.ty(first + i)?, call.graph.ty(*returned));
        check_passed(call, first + i, passed, *formal)?;
        if !same_type(passed, returned) {
            let reason = format!("carried value {i} is {passed}, but the body returns {returned}");
            return Err(call.error(reason));
        }
        types.push(passed.clone());
    }
    Ok(types)
}

pub(crate) fn loop_(call: &Call<'_>) -> Result<Vec<Type>> {
    let body = call.block("body")?;
    let Some(carried) = call.inputs.len().checked_sub(2) else {
        return Err(call.error("the number of iterations and the condition are missing"));
    };
    let (inputs, outputs) = (&body.inputs, body.outputs());
    if inputs.len() != carried + 2 || outputs.len() < carried + 1 {
        let reason = format!("{carried} values are carried, the body has {}", inputs.len());
        return Err(call.error(format!("{reason} inputs and {} outputs", outputs.len())));
    }
    for (i, dtype) in [DType::I64, DType::Bool].into_iter().enumerate() {
        if call.optional(i).is_some() {
            call.dtype_is(i, dtype)?;
            call.is_single(i)?;
        }
        let formal = call.graph.ty(inputs[i]);
        if formal.dtype != dtype {
            return Err(call.error(format!("the body takes {formal} as input {i}")));
        }
    }
    expect_count(call, outputs.len() - 1)?;
    let mut types = carry(call, 2, &inputs[2..], &outputs[1..=carried])?;
    let stacked = &outputs[carried + 1..];
    if !stacked.is_empty() {
        let trips = trip_count(call, body)?;
        types.extend(stacked.iter().map(|value| {
            let mut ty = call.graph.ty(*value).clone();
            ty.shape.insert(0, trips.clone());
            ty
        }));
    }
    Ok(types)
}

/// Returns the number of iterations of a loop, if nothing can end it early.
fn trip_count(call: &Call<'_>, body: &Block) -> Result<Dim> {
    if call.optional(0).is_none() {
        return Err(call.error("the trip count is not given, so stacked results have no size"));
    }
    let is_true = |value: ValueId| {
        let constant = call.graph.tensor(value).and_then(tensor::Tensor::splat);
        constant.is_some_and(|value| value != 0.0)
    };
    let mut condition = body.outputs()[0];
    while let Some(node) = call.graph.producer(condition).map(|id| call.graph.node(id))
        && node.is("Identity")
        && let Some(input) = node.input(0)
    {
        condition = input;
    }
    let starts = call.optional(1).is_none_or(is_true);
    if !starts || !(condition == body.inputs[1] || is_true(condition)) {
        return Err(call.error("the loop may end early, so stacked results have no size"));
    }
    Ok(non_negative(&call.single(0)?))
}

pub(crate) fn scan(call: &Call<'_>) -> Result<Vec<Type>> {
    let body = call.block("body")?;
    let scanned = call.required_int("num_scan_inputs")?;
    let carried = usize::try_from(scanned).ok().and_then(|n| call.inputs.len().checked_sub(n));
    let fits = |carried: &usize| {
        body.inputs.len() == call.inputs.len()
            && body.outputs().len() >= *carried
            && *carried < call.inputs.len()
    };
    let Some(carried) = carried.filter(fits) else {
        let reason = format!("{} inputs, {scanned} of them scanned", call.inputs.len());
        let (a, b) = (body.inputs.len(), body.outputs().len());
        return Err(call.error(format!("{reason}; the body has {a} inputs and {b} outputs")));
    };
    expect_count(call, body.outputs().len())?;
    let (states, elements) = body.inputs.split_at(carried);
    let (finals, stacked) = body.outputs().split_at(carried);
    let mut types = carry(call, 0, states, finals)?;
    let length = scan_length(call, carried, elements)?;
    let axes = call.ints_of("scan_output_axes", stacked.len())?;
    for (i, value) in stacked.iter().enumerate() {
        let mut ty = call.graph.ty(*value).clone();
        let axis = call.axis(axes.map_or(0, |axes| axes[i]), ty.rank() + 1)?;
        ty.shape.insert(axis, length.clone());
        types.push(ty);
    }
    Ok(types)
}

/// Returns the size that all scanned axes share.
fn scan_length(call: &Call<'_>, first: usize, elements: &[ValueId]) -> Result<Dim> {
    let axes = call.ints_of("scan_input_axes", elements.len())?;
    let mut length: Option<Dim> = None;
    for (i, formal) in elements.iter().enumerate() {
        let mut ty = call.ranked_from(first + i, 1)?.clone();
        let size = ty.shape.remove(call.axis(axes.map_or(0, |axes| axes[i]), ty.rank())?);
        check_passed(call, first + i, &ty, *formal)?;
        match &length {
            Some(length) if !same(length, &size) => {
                return Err(call.error(format!("scanned axes have sizes {length} and {size}")));
            }
            _ => length = Some(size),
        }
    }
    length.ok_or_else(|| call.error("nothing is scanned"))
}
