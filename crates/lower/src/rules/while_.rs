//! while[cond, body](x…) → Loop; the condition is computed before the first and after every round

use std::panic::Location;

use jaxpr::JaxprId;
use onnx::{Op, ValueId, attrs};
use tensor::{DType, Type};

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let cond: JaxprId = cx.param("cond_jaxpr")?;
    let body: JaxprId = cx.param("body_jaxpr")?;
    let in_cond: usize = cx.param("cond_nconsts")?;
    let in_body: usize = cx.param("body_nconsts")?;
    let (consts, init) = x.split_at(cx.in_count(in_cond + in_body));
    let (cond_consts, body_consts) = consts.split_at(cx.in_count(in_cond));

    let go_on = cx.inline(cond, &[cond_consts, init].concat())?[0];
    let types: Vec<Type> = init.iter().map(|v| cx.ty(*v).clone()).collect();
    let block = cx.block(|cx, block| {
        cx.inputs(block, vec![Type::new(DType::I64, []), Type::new(DType::Bool, [])]);
        let carry = cx.inputs(block, types);
        let carry = cx.inline(body, &[body_consts, &carry].concat())?;
        let go_on = cx.inline(cond, &[cond_consts, &carry].concat())?;
        Ok([go_on, carry].concat())
    })?;
    // No trip count: only the condition ends the loop.
    let inputs = [None, Some(go_on)].into_iter().chain(init.iter().map(|v| Some(*v))).collect();
    let count = init.len();
    Ok(cx.emit(Op::onnx("Loop"), inputs, attrs! { body: block }, count, Location::caller())?)
}
