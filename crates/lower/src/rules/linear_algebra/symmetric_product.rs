//! symmetric_product[alpha, beta](a, c) → alpha · a aᵀ + beta · c

use onnx::{Attrs, ValueId};

use crate::{Context, Parts, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let (alpha, beta): (f64, f64) = (cx.param("alpha")?, cx.param("beta")?);
    let (a, c) = (Parts::Real(x[0]), x[1]);
    let transposed = a.transpose(cx)?;
    let product = a.matmul(cx, transposed)?.re();
    let (alpha, beta) = (cx.scalar_like(c, alpha)?, cx.scalar_like(c, beta)?);
    let product = cx.op("Mul", &[alpha, product], Attrs::new())?;
    let rest = cx.op("Mul", &[beta, c], Attrs::new())?;
    Ok(vec![cx.op("Add", &[product, rest], Attrs::new())?])
}
