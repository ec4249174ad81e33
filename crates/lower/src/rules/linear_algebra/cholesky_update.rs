//! cholesky_update(r, w) → Loop over rows, each rotated with w so that w's next element vanishes

use onnx::{Attrs, ValueId};

use super::complex_arrays::Entries;
use super::matrix;
use crate::rules::Result;
use crate::rules::control_flow::iteration::{Round, repeat};
use crate::{Context, Parts};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (factor, vector) = (Entries::read(cx, x[0])?, Entries::read(cx, x[1])?);
    if matrix::is_empty(cx, factor) {
        return Ok(vec![x[0]]);
    }
    let (n, _) = matrix::sides(cx, factor);
    let vector = vector.each(cx, |cx, part| Ok(cx.unsqueeze(part, &[0])?))?;
    let done = repeat(cx, &n, &[vector], |cx, at, carry| {
        let row = factor.take(cx, -2, at)?.re;
        let vector = carry[0].re;
        let pivot = Entries::real(row).take(cx, -1, at)?.re;
        let element = Entries::real(vector).take(cx, -1, at)?.re;
        let (cosine, sine) = rotation(cx, pivot, element)?;
        let mut product = |a, b| cx.op("Mul", &[a, b], Attrs::new());
        let (a, b) = (product(cosine, row)?, product(sine, vector)?);
        let (c, d) = (product(cosine, vector)?, product(sine, row)?);
        let row = cx.op("Sub", &[a, b], Attrs::new())?;
        let vector = cx.op("Add", &[c, d], Attrs::new())?;
        Ok(Round { carry: vec![Entries::real(vector)], stack: vec![Entries::real(row)] })
    })?;
    Ok(vec![matrix::from_rows(cx, done.stack[0])?.write(cx, 0)?])
}

/// The cosine and the sine of the rotation that takes (x, y) to (±|x, y|, 0).
fn rotation(cx: &mut Context<'_>, x: ValueId, y: ValueId) -> Result<(ValueId, ValueId)> {
    let (zero, one) = (cx.scalar_like(x, 0.0)?, cx.scalar_like(x, 1.0)?);
    let nothing = cx.op("Equal", &[y, zero], Attrs::new())?;
    let (a, b) = (cx.op("Abs", &[x], Attrs::new())?, cx.op("Abs", &[y], Attrs::new())?);
    let larger = cx.op("Max", &[a, b], Attrs::new())?;
    let larger = cx.op("Where", &[nothing, one, larger], Attrs::new())?;
    let scaled = |cx: &mut Context<'_>, value| cx.op("Div", &[value, larger], Attrs::new());
    let (x, y) = (scaled(cx, x)?, scaled(cx, y)?);
    let x_or_one = cx.op("Where", &[nothing, one, x], Attrs::new())?;
    let (a, b) =
        (cx.op("Mul", &[x_or_one, x_or_one], Attrs::new())?, cx.op("Mul", &[y, y], Attrs::new())?);
    let square = cx.op("Add", &[a, b], Attrs::new())?;
    let norm = cx.op("Sqrt", &[square], Attrs::new())?;
    let cosine = cx.op("Div", &[x_or_one, norm], Attrs::new())?;
    let sine = cx.op("Div", &[y, norm], Attrs::new())?;
    Ok((cosine, cx.op("Neg", &[sine], Attrs::new())?))
}
