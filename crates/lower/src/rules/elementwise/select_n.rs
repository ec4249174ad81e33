//! select_n(which, x₀, x₁) → Where(which, x₁, x₀); with an integer `which`, a chain of Where. If
//! `which` is the index of the first condition that holds, as in `jnp.select`, the chain uses these
//! conditions

use onnx::{Attrs, ValueId};
use tensor::DType;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (which, cases) = (x[0], &x[1..]);
    if cx.dtype(which) == DType::Bool {
        return match cases {
            [only] => Ok(vec![*only]),
            _ => Ok(vec![cx.op("Where", &[which, cases[1], cases[0]], Attrs::new())?]),
        };
    }
    if let Some((axis, conditions)) = cx.alternatives(which)
        && conditions.len() == cases.len()
    {
        // If no condition holds, the first case is chosen.
        let mut chosen = cases[0];
        for (condition, case) in conditions.iter().zip(cases).rev() {
            let condition = cx.squeeze(*condition, &[axis])?;
            chosen = cx.op("Where", &[condition, *case, chosen], Attrs::new())?;
        }
        return Ok(vec![chosen]);
    }
    let mut chosen = cases[cases.len() - 1];
    for (i, case) in cases.iter().enumerate().rev().skip(1) {
        let dtype = cx.dtype(which);
        let bound = cx.int(dtype, i as i128)?;
        // JAX clamps an index below the first or above the last case.
        let this = cx.op("LessOrEqual", &[which, bound], Attrs::new())?;
        chosen = cx.op("Where", &[this, *case, chosen], Attrs::new())?;
    }
    Ok(vec![chosen])
}
