//! Discrete Fourier transforms of the last axis, not scaled.
//!
//! Short transforms are products with a table. Transforms whose length is a power of two become
//! ONNX's `DFT`. For other lengths, ONNX does not specify the algorithm of `DFT`, and thus neither
//! its precision nor its speed. They are decomposed into two factors of the length, or into a
//! convolution whose length is a power of two. A length that is known only when the model runs uses
//! the operator, in double precision.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_2};
use std::sync::Arc;

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use crate::rules::indexing::indices;
use crate::rules::linear_algebra::matrix;
use crate::rules::movement::pad;
use crate::{Context, Parts, Result, RuleError};

/// The maximum length of a transform that is a product with a table.
const SHORT: i64 = 64;

/// The same maximum for a length without factors.
const SHORT_PRIME: i64 = 128;

/// Computes Σⱼ xⱼ e^(-2πi jk/n) for all k.
#[track_caller]
pub(crate) fn forward(cx: &mut Context<'_>, x: Parts) -> Result<Parts> {
    let Some(n) = length(cx, x).as_known() else { return in_double(cx, x, false) };
    if n == 1 {
        return Ok(x);
    }
    if n <= SHORT {
        return by_table(cx, x, n, n);
    }
    if n.count_ones() == 1 {
        return by_operator(cx, x, false);
    }
    match (2..=SHORT).rev().find(|factor| n % factor == 0) {
        Some(factor) => by_factors(cx, x, factor, n / factor),
        None if n <= SHORT_PRIME => by_table(cx, x, n, n),
        None => by_convolution(cx, x, n),
    }
}

/// Computes Σⱼ xⱼ e^(2πi jk/n) for all k.
#[track_caller]
pub(crate) fn inverse(cx: &mut Context<'_>, x: Parts) -> Result<Parts> {
    // Exchanging the real and imaginary parts before and after the transform negates all angles.
    match x.im() {
        None => forward(cx, x)?.conj(cx),
        Some(im) => {
            let turned = forward(cx, Parts::Complex(im, x.re()))?;
            let re =
                turned.im().ok_or_else(|| RuleError::Internal("a real spectrum".to_owned()))?;
            Ok(Parts::Complex(re, turned.re()))
        }
    }
}

/// Computes the first half of [`forward`] for real numbers. The other results are conjugates of
/// these n / 2 + 1 numbers.
#[track_caller]
pub(crate) fn forward_real(cx: &mut Context<'_>, x: ValueId) -> Result<Parts> {
    let x = Parts::Real(x);
    let Some(n) = length(cx, x).as_known() else { return in_double(cx, x, true) };
    let half = n / 2 + 1;
    if n <= SHORT {
        return by_table(cx, x, n, half);
    }
    if n.count_ones() == 1 {
        return by_operator(cx, x, true);
    }
    forward(cx, x)?.slice(cx, -1, &Dim::Known(0), &half.into())
}

/// Computes the real numbers, multiplied by n, whose spectrum has `x` as its first half.
#[track_caller]
pub(crate) fn inverse_real(cx: &mut Context<'_>, x: Parts, n: &Dim) -> Result<ValueId> {
    let (Some(half), Some(n)) = (length(cx, x).as_known(), n.as_known()) else {
        let whole = mirrored(cx, x, n)?;
        return Ok(inverse(cx, whole)?.re());
    };
    if n <= SHORT {
        // Numbers that have a conjugate count twice.
        let weight = |k: i64| if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
        let all = (0..half).flat_map(|k| (0..n).map(move |j| (k, root(j * k, n))));
        let weighted = all.map(|(k, (c, s))| (weight(k) * c, weight(k) * s));
        let (re, im): (Vec<_>, Vec<_>) = weighted.unzip();
        let (re, im) = (table(cx, x, &[half, n], &re)?, table(cx, x, &[half, n], &im)?);
        let even = cx.op("MatMul", &[x.re(), re], Attrs::new())?;
        let Some(im_x) = x.im() else { return Ok(even) };
        let odd = cx.op("MatMul", &[im_x, im], Attrs::new())?;
        return Ok(cx.op("Add", &[even, odd], Attrs::new())?);
    }
    let places: Vec<i64> = (0..n).map(|k| k.min(n - k)).collect();
    let places = cx.i64s(&places);
    let mut whole = x.take(cx, -1, places)?;
    if let Some(im) = whole.im() {
        let signs: Vec<f64> = (0..n).map(|k| if 2 * k <= n { 1.0 } else { -1.0 }).collect();
        let signs = table(cx, x, &[n], &signs)?;
        whole = Parts::Complex(whole.re(), cx.op("Mul", &[im, signs], Attrs::new())?);
    }
    Ok(inverse(cx, whole)?.re())
}

/// Completes a spectrum of `n` numbers from its first half.
fn mirrored(cx: &mut Context<'_>, half: Parts, n: &Dim) -> Result<Parts> {
    let places = indices::count(cx, n)?;
    let length = cx.dims(std::slice::from_ref(n))?;
    let rest = cx.op("Sub", &[length, places], Attrs::new())?;
    let nearer = cx.op("Min", &[places, rest], Attrs::new())?;
    let whole = half.take(cx, -1, nearer)?;
    let Some(im) = whole.im() else { return Ok(whole) };
    let given = cx.op("LessOrEqual", &[places, rest], Attrs::new())?;
    let minus = cx.op("Neg", &[im], Attrs::new())?;
    let im = cx.op("Where", &[given, im, minus], Attrs::new())?;
    Ok(Parts::Complex(whole.re(), im))
}

/// Returns the length of the last axis.
fn length(cx: &Context<'_>, x: Parts) -> Dim {
    cx.shape(x.re()).last().cloned().unwrap_or(Dim::Known(1))
}

/// Returns the cosine and the sine of -2πk/n, exact for quarters and eighths of a turn.
#[expect(clippy::cast_precision_loss, reason = "lengths are far below 2⁵³")]
fn root(k: i64, n: i64) -> (f64, f64) {
    let fourfold = 4 * k.rem_euclid(n);
    let (quarter, rest) = (fourfold / n, fourfold % n);
    let (c, s) = match rest {
        0 => (1.0, 0.0),
        _ if 2 * rest == n => (FRAC_1_SQRT_2, FRAC_1_SQRT_2),
        _ => {
            let angle = rest as f64 / n as f64 * FRAC_PI_2;
            (angle.cos(), angle.sin())
        }
    };
    match quarter {
        0 => (c, -s),
        1 => (-s, -c),
        2 => (-c, s),
        _ => (s, c),
    }
}

/// Adds a constant of the type of `like`.
fn table(cx: &mut Context<'_>, like: Parts, shape: &[i64], values: &[f64]) -> Result<ValueId> {
    let dtype = cx.dtype(like.re());
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the type is the point")]
    let bytes: Vec<u8> = match dtype {
        DType::F64 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::F32 => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        other => {
            return Err(RuleError::Internal(format!(
                "Fourier transforms of {other} are not supported"
            )));
        }
    };
    let shape: Option<Vec<usize>> = shape.iter().map(|n| usize::try_from(*n).ok()).collect();
    let tensor = Tensor::new(dtype, &shape.unwrap_or_default(), Arc::new(bytes));
    let tensor = tensor.map_err(|error| RuleError::Internal(error.to_string()))?;
    Ok(cx.constant(tensor))
}

/// Adds roots of unity as constants.
fn roots(
    cx: &mut Context<'_>,
    like: Parts,
    shape: &[i64],
    values: impl Iterator<Item = (f64, f64)>,
) -> Result<Parts> {
    let (re, im): (Vec<_>, Vec<_>) = values.unzip();
    Ok(Parts::Complex(table(cx, like, shape, &re)?, table(cx, like, shape, &im)?))
}

/// Computes the first `count` results as a product with a matrix of roots.
fn by_table(cx: &mut Context<'_>, x: Parts, n: i64, count: i64) -> Result<Parts> {
    let all = (0..n).flat_map(|j| (0..count).map(move |k| root(j * k, n)));
    let matrix = roots(cx, x, &[n, count], all)?;
    x.matmul(cx, matrix)
}

/// Emits ONNX's own operator. For real numbers, it returns all results or the first half.
fn by_operator(cx: &mut Context<'_>, x: Parts, half: bool) -> Result<Parts> {
    let apart: Vec<ValueId> =
        x.flat().map(|part| cx.unsqueeze(part, &[-1])).collect::<onnx::Result<_>>()?;
    let pairs = match apart.as_slice() {
        [real] => *real,
        parts => cx.op("Concat", parts, attrs! { axis: -1 })?,
    };
    let axis = cx.scalar(DType::I64, -2.0)?;
    let inputs = [Some(pairs), None, Some(axis)];
    let found = cx.op_optional("DFT", &inputs, attrs! { onesided: half })?;
    let parts = cx.op_many("Split", &[found], attrs! { axis: -1, num_outputs: 2 }, 2)?;
    Ok(Parts::Complex(cx.squeeze(parts[0], &[-1])?, cx.squeeze(parts[1], &[-1])?))
}

/// Emits ONNX's own operator in double precision, because its precision in the type of `x` is not
/// guaranteed.
fn in_double(cx: &mut Context<'_>, x: Parts, half: bool) -> Result<Parts> {
    let dtype = cx.dtype(x.re());
    let x = x.each(cx, |cx, part| cx.cast(part, DType::F64))?;
    let found = by_operator(cx, x, half)?;
    found.each(cx, |cx, part| cx.cast(part, dtype))
}

/// Factors the length. With j = as + b and k = c + rd, it transforms over a with a table,
/// multiplies by the roots of bc, and then transforms over b.
fn by_factors(cx: &mut Context<'_>, x: Parts, r: i64, s: i64) -> Result<Parts> {
    let shape = cx.shape(x.re()).to_vec();
    let batch = &shape[..shape.len() - 1];
    let apart = [batch, &[r.into(), s.into()]].concat();
    let all = (0..r).flat_map(|a| (0..r).map(move |c| root(a * c, r)));
    let matrix = roots(cx, x, &[r, r], all)?;
    let x = x.each(cx, |cx, part| cx.reshape(part, &apart))?;
    let x = matrix.matmul(cx, x)?;
    let all = (0..r).flat_map(|c| (0..s).map(move |b| root(b * c, r * s)));
    let twiddles = roots(cx, x, &[r, s], all)?;
    let x = x.mul(cx, twiddles)?;
    let x = forward(cx, x)?.transpose(cx)?;
    x.each(cx, |cx, part| cx.reshape(part, &shape))
}

/// Uses Bluestein's algorithm: with jk = (j² + k² - (k - j)²) / 2, the transform is a convolution
/// with e^(πi j²/n). It runs in double precision, since the result is a difference of much larger
/// numbers.
fn by_convolution(cx: &mut Context<'_>, x: Parts, n: i64) -> Result<Parts> {
    let dtype = cx.dtype(x.re());
    let x = x.each(cx, |cx, part| cx.cast(part, DType::F64))?;
    let chirp = |j: i64| root(j * j % (2 * n), 2 * n);
    let shift = roots(cx, x, &[n], (0..n).map(chirp))?;
    let x = x.mul(cx, shift)?;
    let size = u64::try_from(2 * n - 1).map_or(1, u64::next_power_of_two);
    let size = i64::try_from(size).map_err(|_| RuleError::Internal("too long".to_owned()))?;
    let low = vec![Dim::Known(0); cx.rank(x.re())];
    let mut high = low.clone();
    if let Some(last) = high.last_mut() {
        *last = (size - n).into();
    }
    let zero = cx.scalar_like(x.re(), 0.0)?;
    let x = x.each(cx, |cx, part| pad::edges(cx, part, zero, &low, &high))?;
    // The other factor of the product is conjugated, and runs from its middle to both ends.
    let middle = shift.conj(cx)?;
    let gap = Parts::Real(cx.full(DType::F64, 0.0, &[(size - 2 * n + 1).into()])?);
    let back = matrix::reversed(cx, middle, &[0])?.slice(cx, 0, &Dim::Known(0), &(n - 1).into())?;
    let kernel = middle.concat(cx, 0, gap)?.concat(cx, 0, back)?;
    let (x, kernel) = (forward(cx, x)?, forward(cx, kernel)?);
    let x = x.mul(cx, kernel)?;
    let x = inverse(cx, x)?.slice(cx, -1, &Dim::Known(0), &n.into())?;
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    let scale = cx.scalar_like(x.re(), 1.0 / size as f64)?;
    let x = x.mul(cx, Parts::Real(scale))?.mul(cx, shift)?;
    x.each(cx, |cx, part| cx.cast(part, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_roots_of_unity() {
        for n in [1, 2, 3, 8, 12, 17] {
            for k in -n..2 * n {
                let angle = -2.0 * std::f64::consts::PI * k as f64 / n as f64;
                let (c, s) = root(k, n);
                assert!((c - angle.cos()).abs() < 1e-14 && (s - angle.sin()).abs() < 1e-14);
            }
        }
        assert_eq!(root(1, 4), (-0.0, -1.0));
        assert_eq!(root(2, 4), (-1.0, 0.0));
        assert_eq!(root(1, 8).0, -root(1, 8).1);
    }
}
