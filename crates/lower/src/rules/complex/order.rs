//! eq, ne, max, min: two numbers are equal if both parts are; the order is that of the real
//! parts, and among equal ones that of the imaginary parts

use onnx::Attrs;

use super::Result;
use crate::formula::{Num, formulas};
use crate::rules::linear_algebra::complex_arrays::Entries;
use crate::{Context, Parts};

pub(in crate::rules) fn eq(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    compare(cx, x, |equal| equal)
}

pub(in crate::rules) fn ne(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    compare(cx, x, |equal| !equal)
}

fn compare(
    cx: &mut Context<'_>,
    x: &[Parts],
    answer: impl for<'f> FnOnce(Num<'f>) -> Num<'f>,
) -> Result<Vec<Parts>> {
    let operands = [x[0].re(), x[1].re(), x[0].im(), x[1].im()];
    let [result] = formulas(cx, operands, |[a, c, b, d]| [answer(a.equals(c) & b.equals(d))])?;
    Ok(vec![Parts::Real(result)])
}

pub(in crate::rules) fn max(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![larger(cx, x[0].into(), x[1].into())?.into()])
}

pub(in crate::rules) fn min(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    Ok(vec![smaller(cx, x[0].into(), x[1].into())?.into()])
}

/// The larger of `a` and `b`. If the question has no answer, for NaN, it is `b`.
#[track_caller]
pub(in crate::rules) fn larger(cx: &mut Context<'_>, a: Entries, b: Entries) -> Result<Entries> {
    choose(cx, "Greater", a, b)
}

/// The smaller of `a` and `b`. If the question has no answer, for NaN, it is `b`.
#[track_caller]
pub(in crate::rules) fn smaller(cx: &mut Context<'_>, a: Entries, b: Entries) -> Result<Entries> {
    choose(cx, "Less", a, b)
}

#[track_caller]
fn choose(cx: &mut Context<'_>, op: &'static str, a: Entries, b: Entries) -> Result<Entries> {
    let (Some(y), Some(z)) = (a.im, b.im) else {
        let first = cx.op(op, &[a.re, b.re], Attrs::new())?;
        return a.or(cx, first, b);
    };
    let tie = cx.op("Equal", &[a.re, b.re], Attrs::new())?;
    let by_re = cx.op(op, &[a.re, b.re], Attrs::new())?;
    let by_im = cx.op(op, &[y, z], Attrs::new())?;
    let first = cx.op("Where", &[tie, by_im, by_re], Attrs::new())?;
    a.or(cx, first, b)
}
