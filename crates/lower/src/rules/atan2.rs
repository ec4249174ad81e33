//! atan2(y, x) → Atan(y / x), turned by half a circle to the left of the y-axis

use std::f64::consts::PI;

use onnx::ValueId;

use super::Result;
use crate::Context;
use crate::formula::{Num, formula};

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[y, x]| {
        let (below, left) = (is_negative(y), is_negative(x));
        // The corners at infinity lie on the diagonals. In the origin only the signs of zero count.
        let corner = y.is_inf() & x.is_inf();
        let origin = y.equals(0.0) & x.equals(0.0);
        let slope = corner.select(y.sign() * x.sign(), y / x);
        let slope = origin.select(y, slope);
        let turn = below.select(x.constant(-PI), PI);
        let angle = slope.atan();
        left.select(angle + turn, angle)
    })
}

/// Whether a number has a minus sign, which zero may have too.
fn is_negative(x: Num<'_>) -> Num<'_> {
    x.less(0.0) | (1.0 / x).equals(f64::NEG_INFINITY)
}
