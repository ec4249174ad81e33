//! scan[jaxpr](consts…, carry…, xs…) → Scan; without xs, or if there may be no iteration, Loop with
//! a trip count; a single iteration is inlined; without iterations, the carry is the result. Scans
//! without a carry reach this rule only if they are large: otherwise JAX applies their bodies to
//! all rows at once

use jaxpr::JaxprId;
use onnx::{Attrs, ValueId, attrs};
use tensor::bounds::at_least;
use tensor::{Dim, Tensor, Type};

use crate::rules::movement::rev;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let num_consts: usize = cx.param("num_consts")?;
    let num_carry: usize = cx.param("num_carry")?;
    let (first, xs) = x.split_at(cx.in_count(num_consts + num_carry));
    let (consts, carry) = first.split_at(cx.in_count(num_consts));
    let length: Dim = cx.param("length")?;
    match length {
        Dim::Known(0) => without_iterations(cx, num_carry, carry),
        Dim::Known(1) => single_iteration(cx, consts, carry, xs),
        // The operator `Scan` needs at least one row.
        _ if xs.is_empty() || !at_least(&length, 1) => counted(cx, consts, carry, xs),
        _ => over_arrays(cx, consts, carry, xs),
    }
}

/// Returns the results of a scan without iterations: the initial carry, and empty stacks.
fn without_iterations(cx: &mut Context<'_>, num_carry: usize, carry: &[ValueId]) -> Result {
    let mut results = carry.to_vec();
    let widths: Vec<usize> = cx.out_widths().collect();
    for (index, width) in widths.into_iter().enumerate().skip(num_carry) {
        let stacked = cx.out(index);
        let empty = cx.full(stacked.dtype, 0.0, &stacked.shape)?;
        results.extend(std::iter::repeat_n(empty, width));
    }
    Ok(results)
}

/// Inlines a single iteration, which is faster than a loop.
fn single_iteration(
    cx: &mut Context<'_>,
    consts: &[ValueId],
    carry: &[ValueId],
    xs: &[ValueId],
) -> Result {
    let jaxpr: JaxprId = cx.param("jaxpr")?;
    let mut inputs = [consts, carry].concat();
    for x in xs {
        inputs.push(cx.squeeze(*x, &[0])?);
    }
    let mut results = cx.inline(jaxpr, &inputs)?;
    for stacked in &mut results[carry.len()..] {
        *stacked = cx.unsqueeze(*stacked, &[0])?;
    }
    Ok(results)
}

fn over_arrays(
    cx: &mut Context<'_>,
    consts: &[ValueId],
    carry: &[ValueId],
    xs: &[ValueId],
) -> Result {
    let jaxpr: JaxprId = cx.param("jaxpr")?;
    let direction = i64::from(cx.param::<bool>("reverse")?);
    let slices = xs.iter().map(|v| Type::new(cx.dtype(*v), &cx.shape(*v)[1..]));
    let types: Vec<Type> = carry.iter().map(|v| cx.ty(*v).clone()).chain(slices).collect();
    let body = cx.block(|cx, block| {
        let inputs = cx.inputs(block, types);
        cx.inline(jaxpr, &[consts, &inputs].concat())
    })?;
    let count = cx.out_count();
    let stacked = count - carry.len();
    let attrs = attrs! {
        body: body,
        num_scan_inputs: xs.len() as i64,
        scan_input_directions: vec![direction; xs.len()],
        scan_output_directions: vec![direction; stacked],
    };
    Ok(cx.op_many("Scan", &[carry, xs].concat(), attrs, count)?)
}

fn counted(cx: &mut Context<'_>, consts: &[ValueId], carry: &[ValueId], xs: &[ValueId]) -> Result {
    let jaxpr: JaxprId = cx.param("jaxpr")?;
    let length: Dim = cx.param("length")?;
    let reverse: bool = cx.param("reverse")?;
    let types: Vec<Type> = carry.iter().map(|v| cx.ty(*v).clone()).collect();
    let trips = cx.size(&length)?;
    let is_backward = reverse && !xs.is_empty();
    let last = is_backward.then(|| cx.size(&(length - Dim::Known(1)))).transpose()?;
    let body = cx.block(|cx, block| {
        let [number, condition] = cx.loop_inputs(block);
        let mut inputs = [consts, &cx.inputs(block, types)].concat();
        let row = match last {
            Some(last) => cx.op("Sub", &[last, number], Attrs::new())?,
            None => number,
        };
        for x in xs {
            inputs.push(cx.op("Gather", &[*x, row], attrs! { axis: 0 })?);
        }
        let outputs = cx.inline(jaxpr, &inputs)?;
        Ok([vec![condition], outputs].concat())
    })?;
    let go_on = cx.constant(Tensor::bools(&[], &[true]));
    let (inputs, count) = ([&[trips, go_on], carry].concat(), cx.out_count());
    let mut outputs = cx.op_many("Loop", &inputs, attrs! { body: body }, count)?;
    if reverse {
        // A reversed scan stacks its iterations in reverse order.
        for value in &mut outputs[carry.len()..] {
            *value = rev::reverse(cx, *value, &[0])?;
        }
    }
    Ok(outputs)
}
