//! polynomial(x, a₀, …, aₙ) → Horner's rule: a₀ + x · (a₁ + x · (a₂ + …))

use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let (x, coefficients) = (x[0], &x[1..]);
    let mut sum = coefficients.last().map_or(x, |last| *last);
    for coefficient in coefficients.iter().rev().skip(1) {
        sum = sum.mul(cx, x)?.add(cx, *coefficient)?;
    }
    let shape = cx.out(0).shape;
    Ok(vec![sum.each(cx, |cx, part| cx.expand(part, &shape))?])
}
