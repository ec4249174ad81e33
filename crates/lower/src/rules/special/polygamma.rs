//! polygamma(m, x) → (-1)^(m+1) m! zeta(m + 1, x); digamma for m = 0

use onnx::ValueId;

use super::digamma::digamma;
use super::lgamma::lgamma;
use super::zeta::zeta;
use crate::formula::{Num, formula};
use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let order = cx.facts().constant(x[0]).and_then(|order| order.splat());
    formula(cx, x, |[m, x]| match order {
        Some(order) if order >= 1.0 && order.fract() == 0.0 => derivative(m, x),
        _ => {
            let result = m.equals(0.0).select(digamma(x), derivative(m, x));
            (m.less(0.0) | !m.equals(m.floor())).select(f64::NAN, result)
        }
    })
}

/// Computes the polygamma function of a positive integer order.
fn derivative<'f>(m: Num<'f>, x: Num<'f>) -> Num<'f> {
    let half = m * 0.5;
    let sign = half.equals(half.floor()).select(m.constant(-1.0), 1.0);
    let next = m + 1.0;
    sign * lgamma(next).exp() * zeta(next, x)
}
