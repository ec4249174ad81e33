//! onnx_function[call_jaxpr, name](x…) → a call of a function of the model

use jaxpr::CALL;
use onnx::ValueId;

use crate::driver::Label;
use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (_, [jaxpr, name, namespace, unique]) = CALL;
    let jaxpr = cx.param(jaxpr)?;
    let (name, namespace, unique) = (cx.param(name)?, cx.param(namespace)?, cx.param(unique)?);
    let inputs: Vec<ValueId> = x.iter().flat_map(|value| value.flat()).collect();
    let results = cx.call_function(jaxpr, Label { name, namespace, unique }, &inputs)?;
    cx.regroup(&mut results.into_iter())
}
