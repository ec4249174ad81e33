//! integer_pow[y](x) → products by repeated squaring; a negative y takes the reciprocal

use onnx::{Attrs, ValueId};

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let exponent: i64 = cx.param("y")?;
    if exponent == 0 {
        let (dtype, shape) = (cx.out(0).dtype, cx.out(0).shape.clone());
        return Ok(vec![cx.full(dtype, 1.0, &shape)?]);
    }
    let mut remaining = exponent.unsigned_abs();
    let mut square = x[0];
    let mut product = None;
    loop {
        if remaining & 1 == 1 {
            product = Some(match product {
                None => square,
                Some(product) => cx.op("Mul", &[product, square], Attrs::new())?,
            });
        }
        remaining >>= 1;
        if remaining == 0 {
            break;
        }
        square = cx.op("Mul", &[square, square], Attrs::new())?;
    }
    let product = product.unwrap_or(x[0]);
    if exponent > 0 {
        // `integer_pow[1]` returns its operand itself.
        return Ok(vec![product]);
    }
    let one = cx.scalar_like(x[0], 1.0)?;
    Ok(vec![cx.op("Div", &[one, product], Attrs::new())?])
}
