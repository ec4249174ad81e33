//! custom_linear_solve[jaxprs](consts…, b…) → its solver, inlined

use jaxpr::{JaxprId, Params};
use onnx::ValueId;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (jaxprs, lengths): (Params, Params) = (cx.param("jaxprs")?, cx.param("const_lengths")?);
    let solve: JaxprId = jaxprs.get("solve")?;
    // The constants of the four functions come first, in this order.
    let count = |name: &str| lengths.get::<usize>(name);
    let start = count("matvec")? + count("vecmat")?;
    let end = start + count("solve")?;
    let sides = end + count("transpose_solve")?;
    let (start, end, sides) = (cx.in_count(start), cx.in_count(end), cx.in_count(sides));
    cx.inline(solve, &[&x[start..end], &x[sides..]].concat())
}
