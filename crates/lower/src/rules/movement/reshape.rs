//! reshape[new_sizes](x) → Reshape(x)

use onnx::ValueId;

use crate::{Context, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let order: Option<Vec<usize>> = cx.param_or("dimensions", None)?;
    let value = match order {
        Some(order) => cx.transpose(x[0], &order)?,
        None => x[0],
    };
    let shape = cx.out(0).shape.clone();
    // JAX compares the numbers of elements only if all sizes are known.
    if !onnx::may_hold_as_many(&cx.ty(value).shape, &shape) {
        let (from, to) = (cx.ty(value), cx.out(0));
        let reason = format!("{from} and {to} have different numbers of elements for most sizes");
        let help = "reshape to a shape with the same number of elements for all symbolic sizes";
        return Err(RuleError::unsupported(reason).with_help(help));
    }
    Ok(vec![cx.reshape(value, &shape)?])
}
