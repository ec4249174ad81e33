//! eq, ne, max, min: two numbers are equal if both parts are; the order is lexicographic, real
//! parts first

use crate::formula::Num;
use crate::formula::number::{Number, number};
use crate::{Context, Parts, Result};

pub(in crate::rules) fn eq<'f>(a: Number<'f>, b: Number<'f>) -> Number<'f> {
    (a.re.equals(b.re) & a.im().equals(b.im())).into()
}

pub(in crate::rules) fn ne<'f>(a: Number<'f>, b: Number<'f>) -> Number<'f> {
    (!eq(a, b).re).into()
}

pub(in crate::rules) fn max(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![larger(cx, x[0], x[1])?])
}

pub(in crate::rules) fn min(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![smaller(cx, x[0], x[1])?])
}

/// Returns the larger of `a` and `b`, or `b` if a NaN makes them incomparable.
#[track_caller]
pub(in crate::rules) fn larger(cx: &mut Context<'_>, a: Parts, b: Parts) -> Result<Parts> {
    choose(cx, a, b, |a, b| a.greater(b))
}

/// Returns the smaller of `a` and `b`, or `b` if a NaN makes them incomparable.
#[track_caller]
pub(in crate::rules) fn smaller(cx: &mut Context<'_>, a: Parts, b: Parts) -> Result<Parts> {
    choose(cx, a, b, |a, b| a.less(b))
}

#[track_caller]
fn choose(
    cx: &mut Context<'_>,
    a: Parts,
    b: Parts,
    before: impl for<'f> Fn(Num<'f>, Num<'f>) -> Num<'f>,
) -> Result<Parts> {
    number(cx, [a, b], |[a, b]| {
        let tie = a.re.equals(b.re);
        let by_re = before(a.re, b.re);
        a.or(tie.select(before(a.im(), b.im()), by_re), b)
    })
}
