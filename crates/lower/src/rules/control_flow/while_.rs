//! while[cond, body](x…) → Loop; the condition is computed before the first and after every
//! iteration. If it has axes, the loop runs while it holds anywhere, and changes only the elements
//! that it holds for

use std::panic::Location;

use jaxpr::JaxprId;
use onnx::{Op, ValueId, attrs};
use tensor::{DType, Type};

use crate::rules::indexing::scatter::choose;
use crate::rules::reduction::reduce::zeros_and_ones;
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let cond: JaxprId = cx.param("cond_jaxpr")?;
    let body: JaxprId = cx.param("body_jaxpr")?;
    let in_cond: usize = cx.param("cond_nconsts")?;
    let in_body: usize = cx.param("body_nconsts")?;
    let (consts, init) = x.split_at(cx.in_count(in_cond + in_body));
    let (cond_consts, body_consts) = consts.split_at(cx.in_count(in_cond));

    let holds = cx.inline(cond, &[cond_consts, init].concat())?[0];
    let go_on = anywhere(cx, holds)?;
    // A condition per element is carried through the loop.
    let start = if go_on == holds { init.to_vec() } else { [init, &[holds]].concat() };
    let types: Vec<Type> = start.iter().map(|v| cx.ty(*v).clone()).collect();
    let block = cx.block(|cx, block| {
        cx.loop_inputs(block);
        let carry = cx.inputs(block, types);
        let (carry, holds) = carry.split_at(init.len());
        let mut next = cx.inline(body, &[body_consts, carry].concat())?;
        if let [holds] = holds {
            for (new, old) in next.iter_mut().zip(carry) {
                *new = choose(cx, *holds, *new, *old)?;
            }
        }
        let holds = cx.inline(cond, &[cond_consts, &next].concat())?[0];
        let go_on = anywhere(cx, holds)?;
        let holds = if go_on == holds { vec![] } else { vec![holds] };
        Ok([vec![go_on], next, holds].concat())
    })?;
    // Without a trip count, only the condition ends the loop.
    let inputs = [None, Some(go_on)].into_iter().chain(start.iter().map(|v| Some(*v))).collect();
    let attrs = attrs! { body: block };
    let mut results = cx.emit(Op::onnx("Loop"), inputs, attrs, start.len(), Location::caller())?;
    results.truncate(init.len());
    Ok(results)
}

/// Reduces a condition to a scalar that is true if it holds for any element.
fn anywhere(cx: &mut Context<'_>, holds: ValueId) -> Result<ValueId> {
    if cx.rank(holds) == 0 {
        return Ok(holds);
    }
    let axes: Vec<usize> = (0..cx.rank(holds)).collect();
    let marks = zeros_and_ones(cx, holds, &axes)?;
    let any = cx.op("ReduceMax", &[marks], attrs! { keepdims: false })?;
    Ok(cx.cast(any, DType::Bool)?)
}
