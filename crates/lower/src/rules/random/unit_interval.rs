//! Floats made from bits whose exponent is a constant, as random numbers between one and two are: the
//! rest of the bits is an integer, which arithmetic turns into the same float.

use onnx::{Attr, Attrs, ValueId};
use tensor::{DType, Kind};

use crate::Context;
use crate::rules::Result;

/// The float that the bits of `x` are, if its exponent is known.
#[track_caller]
pub(crate) fn with_constant_exponent(
    cx: &mut Context<'_>,
    x: ValueId,
    to: DType,
) -> Result<Option<ValueId>> {
    let Some((mantissa, exponent)) = parts(cx, x, to) else { return Ok(None) };
    let number = cx.cast(mantissa, to)?;
    let unit = cx.scalar(to, 2f64.powi(exponent - fraction_bits(to)))?;
    let one = cx.scalar(to, 2f64.powi(exponent))?;
    let fraction = cx.op("Mul", &[number, unit], Attrs::new())?;
    Ok(Some(cx.op("Add", &[fraction, one], Attrs::new())?))
}

/// The bits below the exponent, and the exponent as a power of two.
fn parts(cx: &Context<'_>, x: ValueId, to: DType) -> Option<(ValueId, i32)> {
    let bits = fraction_bits(to);
    if bits == 0 || cx.dtype(x).kind() != Kind::Unsigned {
        return None;
    }
    let node = cx.producer(x)?;
    if !node.is("BitwiseOr") {
        return None;
    }
    let (a, b) = (node.input(0)?, node.input(1)?);
    let (mantissa, constant) = match (word(cx, a), word(cx, b)) {
        (None, Some(constant)) => (a, constant),
        (Some(constant), None) => (b, constant),
        _ => return None,
    };
    let (biased, below) = (constant >> bits, constant & ((1 << bits) - 1));
    let bias = (1 << (to.bits() as i32 - bits - 2)) - 1;
    let biased = i32::try_from(biased).ok()?;
    let normal = (1..=2 * bias).contains(&biased) && below == 0;
    (normal && length(cx, mantissa) <= bits).then_some((mantissa, biased - bias))
}

/// How many bits of a float are below its exponent.
fn fraction_bits(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => 10,
        DType::BF16 => 7,
        DType::F32 => 23,
        DType::F64 => 52,
        _ => 0,
    }
}

/// The one word that a constant consists of.
fn word(cx: &Context<'_>, x: ValueId) -> Option<i128> {
    let tensor = cx.known(x)?;
    if tensor.len() != 1 { None } else { tensor.to_ints()?.first().copied() }
}

/// How many bits of the words in `x` can be set.
fn length(cx: &Context<'_>, x: ValueId) -> i32 {
    let all = cx.dtype(x).bits() as i32;
    let Some(node) = cx.producer(x) else { return all };
    let right = |attr: Option<&Attr>| matches!(attr, Some(Attr::String(s)) if &**s == "RIGHT");
    match (node.input(0), node.input(1)) {
        (Some(inner), _) if node.is("Cast") && cx.dtype(inner).kind() == Kind::Unsigned => {
            all.min(length(cx, inner))
        }
        (Some(inner), Some(amount)) if node.is("BitShift") && right(node.attr("direction")) => {
            let amount = word(cx, amount).and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
            (length(cx, inner) - amount).max(0)
        }
        _ => all,
    }
}
