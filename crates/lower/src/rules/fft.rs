//! fft[fft_type, fft_lengths](x) → discrete Fourier transforms of the last axes, one after the other

use std::sync::Arc;

use onnx::{Attrs, ValueId};

use super::entries::Entries;
use super::{Result, dft};
use crate::{Context, RuleError};

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let kind: Arc<str> = cx.param("fft_type")?;
    let lengths: Vec<i64> = cx.param("fft_lengths")?;
    let Some((&last, others)) = lengths.split_last() else { return Ok(vec![x[0]]) };
    if lengths.contains(&0) || cx.out(0).shape.contains(&tensor::Dim::Known(0)) {
        let ty = cx.out(0);
        return Ok(vec![cx.full(ty.dtype, 0.0, &ty.shape)?]);
    }
    let x = Entries::read(cx, x[0])?;
    let (forward, inverse) = (dft::forward, dft::inverse);
    let (others, count) = (others.len(), lengths.len());
    let result = match &*kind {
        "FFT" => each_axis(cx, x, 0..count, forward)?,
        "IFFT" => each_axis(cx, x, 0..count, inverse)?,
        "RFFT" => {
            let half = dft::forward_real(cx, x.re)?;
            each_axis(cx, half, 1..count, forward)?
        }
        "IRFFT" => {
            let x = each_axis(cx, x, 1..others + 1, inverse)?;
            Entries::real(dft::inverse_real(cx, x, last)?)
        }
        other => return Err(RuleError::unsupported(format!("the Fourier transform {other}"))),
    };
    let result = match &*kind {
        "IFFT" | "IRFFT" => {
            #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2⁵³")]
            let scale = lengths.iter().fold(1.0, |product, &n| product / n as f64);
            let scale = cx.scalar_like(result.re, scale)?;
            result.each(cx, |cx, part| Ok(cx.op("Mul", &[part, scale], Attrs::new())?))?
        }
        _ => result,
    };
    Ok(vec![result.write(cx, 0)?])
}

/// `x` transformed along several axes, counted from the last one.
fn each_axis(
    cx: &mut Context<'_>,
    x: Entries,
    axes: std::ops::Range<usize>,
    transform: fn(&mut Context<'_>, Entries) -> Result<Entries>,
) -> Result<Entries> {
    let last = cx.rank(x.re) - 1;
    axes.into_iter().try_fold(x, |x, axis| {
        let mut perm: Vec<usize> = (0..=last).collect();
        perm.swap(last - axis, last);
        let turned = x.each(cx, |cx, part| Ok(cx.transpose(part, &perm)?))?;
        let done = transform(cx, turned)?;
        done.each(cx, |cx, part| Ok(cx.transpose(part, &perm)?))
    })
}
