//! fft[fft_type, fft_lengths](x) → discrete Fourier transforms of the last axes, one by one

use std::sync::Arc;

use onnx::ValueId;
use tensor::Dim;
use tensor::division::product;

use super::dft;
use crate::{Context, Parts, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let kind: Arc<str> = cx.param("fft_type")?;
    let lengths: Vec<Dim> = cx.param("fft_lengths")?;
    let Some(last) = lengths.last() else { return Ok(vec![x[0]]) };
    let x = Parts::read(cx, x[0])?;
    if lengths.contains(&Dim::Known(0)) || cx.out(0).shape.contains(&Dim::Known(0)) {
        let im = (&*kind != "IRFFT").then_some(x.re());
        let like = Parts::new(x.re(), im);
        return Ok(vec![Parts::zeros(cx, 0, like)?]);
    }
    // JAX converts real numbers to complex ones first. The transform of a single number is that
    // number.
    let is_real = x.im().is_some_and(|im| cx.repeats(im, 0.0));
    let changes = lengths.iter().any(|length| *length != Dim::Known(1));
    let x = if is_real && changes { Parts::Real(x.re()) } else { x };
    let (forward, inverse) = (dft::forward, dft::inverse);
    let count = lengths.len();
    let (mut result, is_inverse) = match &*kind {
        "FFT" => (each_axis(cx, x, 0..count, forward)?, false),
        "IFFT" => (each_axis(cx, x, 0..count, inverse)?, true),
        "RFFT" => {
            let half = dft::forward_real(cx, x.re())?;
            (each_axis(cx, half, 1..count, forward)?, false)
        }
        "IRFFT" => {
            let x = each_axis(cx, x, 1..count, inverse)?;
            (Parts::Real(dft::inverse_real(cx, x, last)?), true)
        }
        other => {
            return Err(RuleError::unsupported(format!(
                "the Fourier transform {other} is not supported"
            )));
        }
    };
    if is_inverse {
        let number = number_of_results(cx, &lengths, result)?;
        result = result.over(cx, number)?;
    }
    Ok(vec![result.write(cx, 0)?])
}

/// Returns the product of all lengths, as a number of the type of `like`.
fn number_of_results(cx: &mut Context<'_>, lengths: &[Dim], like: Parts) -> Result<ValueId> {
    let number = product(lengths);
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2⁵³")]
    if let Some(known) = number.as_known() {
        return cx.scalar_like(like.re(), known as f64);
    }
    let (number, dtype) = (cx.dims(&[number])?, cx.dtype(like.re()));
    Ok(cx.cast(number, dtype)?)
}

/// Transforms `x` along several axes, counted from the last one.
fn each_axis(
    cx: &mut Context<'_>,
    x: Parts,
    axes: std::ops::Range<usize>,
    transform: fn(&mut Context<'_>, Parts) -> Result<Parts>,
) -> Result<Parts> {
    let last = cx.rank(x.re()) - 1;
    axes.into_iter().try_fold(x, |x, axis| {
        let mut perm: Vec<usize> = (0..=last).collect();
        perm.swap(last - axis, last);
        let turned = x.each(cx, |cx, part| cx.transpose(part, &perm))?;
        let done = transform(cx, turned)?;
        done.each(cx, |cx, part| cx.transpose(part, &perm))
    })
}
