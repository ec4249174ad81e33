//! eq_to, le_to, lt_to → Equal, LessOrEqual, Less in the total order of the bits: minus zero is
//! less than zero, and infinity is less than NaN. NaNs count as positive, because JAX makes them so
//! before it compares

use onnx::{Attrs, ValueId};

use crate::formula::{Num, formulas};
use crate::{Context, Result};

pub(crate) fn le(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    compare(cx, x, "LessOrEqual", is_at_most)
}

pub(crate) fn lt(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    compare(cx, x, "Less", |a, b| !is_at_most(b, a))
}

pub(crate) fn eq(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    compare(cx, x, "Equal", |a, b| is_at_most(a, b) & is_at_most(b, a))
}

/// Compares floats with a formula, and all other types with an operator.
#[track_caller]
fn compare(
    cx: &mut Context<'_>,
    x: &[ValueId],
    op: &'static str,
    floats: impl for<'f> FnOnce(Num<'f>, Num<'f>) -> Num<'f>,
) -> Result {
    if cx.dtype(x[0]).is_float() {
        let [result] = formulas(cx, [x[0], x[1]], |[a, b]| [floats(a, b)])?;
        return Ok(vec![result]);
    }
    Ok(vec![cx.op(op, x, Attrs::new())?])
}

fn is_at_most<'f>(a: Num<'f>, b: Num<'f>) -> Num<'f> {
    let smaller = a.at_most(b);
    // Only the reciprocals of zeros reveal their signs. The reciprocals of equal numbers may
    // differ, because one of them may be rounded to half precision.
    let behind = a.equals(b) & a.reciprocal().greater(0.0) & b.reciprocal().less(0.0);
    (smaller & !behind) | b.is_nan()
}
