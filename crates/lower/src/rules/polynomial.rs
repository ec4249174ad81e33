//! polynomial(x, a₀, …, aₙ) → Horner's rule: a₀ + x · (a₁ + x · (a₂ + …))

use onnx::{Attrs, ValueId};

use super::Result;
use crate::Context;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (x, coefficients) = (x[0], &x[1..]);
    let mut sum = coefficients.last().copied().unwrap_or(x);
    for coefficient in coefficients.iter().rev().skip(1) {
        let product = cx.op("Mul", &[sum, x], Attrs::new())?;
        sum = cx.op("Add", &[product, *coefficient], Attrs::new())?;
    }
    let shape = cx.out(0).shape.clone();
    Ok(vec![cx.expand(sum, &shape)?])
}
