//! Batches of matrices: the last two axes are rows and columns, the leading ones are independent.

use std::f64::consts::LN_2;

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use crate::formula::formulas;
use crate::rules::indexing::indices;
use crate::rules::movement::{pad, rev};
use crate::{Context, Parts, Result, RuleError};

const ZERO: Dim = Dim::Known(0);

/// Returns the numbers of rows and columns.
pub(crate) fn sides(cx: &Context<'_>, x: Parts) -> (Dim, Dim) {
    let shape = cx.shape(x.re());
    (shape[shape.len() - 2].clone(), shape[shape.len() - 1].clone())
}

/// Returns `true` if there are no elements.
pub(crate) fn is_empty(cx: &Context<'_>, x: Parts) -> bool {
    cx.shape(x.re()).contains(&ZERO)
}

/// Returns the row indices of a matrix, as a column.
#[track_caller]
pub(crate) fn places(cx: &mut Context<'_>, rows: &Dim) -> Result<ValueId> {
    let places = indices::count(cx, rows)?;
    Ok(cx.unsqueeze(places, &[1])?)
}

/// Returns a matrix with ones on the diagonal and zeros elsewhere.
#[track_caller]
pub(crate) fn eye(
    cx: &mut Context<'_>,
    dtype: DType,
    rows: &Dim,
    columns: &Dim,
) -> Result<ValueId> {
    let (row, column) = (places(cx, rows)?, indices::count(cx, columns)?);
    let diagonal = cx.op("Equal", &[row, column], Attrs::new())?;
    Ok(cx.cast(diagonal, dtype)?)
}

/// Returns the identity in the type and the kind of `like`, once for each of its matrices.
#[track_caller]
pub(crate) fn identity(
    cx: &mut Context<'_>,
    rows: &Dim,
    columns: &Dim,
    like: Parts,
) -> Result<Parts> {
    let eye = eye(cx, cx.dtype(like.re()), rows, columns)?;
    Parts::Real(batched(cx, eye, like)?).in_kind_of(cx, like)
}

/// Broadcasts `matrix` to the batch axes of `like`.
#[track_caller]
pub(crate) fn batched(cx: &mut Context<'_>, matrix: ValueId, like: Parts) -> Result<ValueId> {
    let shape = cx.shape(like.re());
    let shape = [&shape[..shape.len() - 2], cx.shape(matrix)].concat();
    cx.expand(matrix, &shape)
}

/// Keeps the elements on and below the diagonal `k`.
#[track_caller]
pub(crate) fn lower(cx: &mut Context<'_>, x: Parts, k: i64) -> Result<Parts> {
    triangle(cx, x, k, false)
}

/// Keeps the elements on and above the diagonal `k`.
#[track_caller]
pub(crate) fn upper(cx: &mut Context<'_>, x: Parts, k: i64) -> Result<Parts> {
    triangle(cx, x, k, true)
}

#[track_caller]
fn triangle(cx: &mut Context<'_>, x: Parts, k: i64, upper: bool) -> Result<Parts> {
    let k = cx.int(DType::I64, k.into())?;
    x.each(cx, |cx, part| cx.op("Trilu", &[part, k], attrs! { upper: upper }))
}

/// Completes Hermitian matrices from one triangle. Their diagonals are real, so imaginary parts
/// there are ignored.
#[track_caller]
pub(crate) fn hermitian(cx: &mut Context<'_>, x: Parts, is_lower: bool) -> Result<Parts> {
    let (half, strict) = match is_lower {
        true => (lower(cx, Parts::Real(x.re()), 0)?, lower(cx, x, -1)?),
        false => (upper(cx, Parts::Real(x.re()), 0)?, upper(cx, x, 1)?),
    };
    let mirrored = strict.adjoint(cx)?;
    Parts::new(half.re(), strict.im()).add(cx, mirrored)
}

/// Turns a stack of columns (k, …, m, 1) into matrices (…, m, k).
#[track_caller]
pub(crate) fn from_columns(cx: &mut Context<'_>, stack: Parts) -> Result<Parts> {
    let rank = cx.rank(stack.re());
    let perm: Vec<usize> = (1..rank - 1).chain([0]).collect();
    stack.each(cx, |cx, part| {
        let flat = cx.squeeze(part, &[rank as i64 - 1])?;
        cx.transpose(flat, &perm)
    })
}

/// Turns a stack of rows (k, …, 1, n) into matrices (…, k, n).
#[track_caller]
pub(crate) fn from_rows(cx: &mut Context<'_>, stack: Parts) -> Result<Parts> {
    let rank = cx.rank(stack.re());
    let perm: Vec<usize> = (1..rank - 2).chain([0, rank - 2]).collect();
    stack.each(cx, |cx, part| {
        let flat = cx.squeeze(part, &[rank as i64 - 2])?;
        cx.transpose(flat, &perm)
    })
}

/// Turns a stack of single numbers (k, …, 1, 1) into vectors (…, k).
#[track_caller]
pub(crate) fn from_scalars(cx: &mut Context<'_>, stack: Parts) -> Result<Parts> {
    let rank = cx.rank(stack.re()) as i64;
    let perm: Vec<usize> = (1..cx.rank(stack.re()) - 2).chain([0]).collect();
    stack.each(cx, |cx, part| {
        let flat = cx.squeeze(part, &[rank - 2, rank - 1])?;
        cx.transpose(flat, &perm)
    })
}

/// Reverses axes of `x`, one after the other.
#[track_caller]
pub(crate) fn reversed(cx: &mut Context<'_>, x: Parts, axes: &[i64]) -> Result<Parts> {
    axes.iter().try_fold(x, |x, axis| x.each(cx, |cx, part| rev::reverse(cx, part, &[*axis])))
}

/// Pads `x` with zeros after its last row and column to the given sizes.
#[track_caller]
pub(crate) fn padded(cx: &mut Context<'_>, x: Parts, rows: &Dim, columns: &Dim) -> Result<Parts> {
    let (m, n) = sides(cx, x);
    let low = vec![ZERO; cx.rank(x.re())];
    let mut high = low.clone();
    let rank = high.len();
    (high[rank - 2], high[rank - 1]) = (rows.clone() - m, columns.clone() - n);
    let zero = cx.scalar_like(x.re(), 0.0)?;
    x.each(cx, |cx, part| pad::edges(cx, part, zero, &low, &high))
}

/// Returns a mask that holds where `mask` holds along all of the given axes, which are kept with
/// size one.
#[track_caller]
pub(crate) fn all(cx: &mut Context<'_>, mask: ValueId, axes: &[i64]) -> Result<ValueId> {
    let (numbers, axes) = (cx.cast(mask, DType::U8)?, cx.i64s(axes));
    let least = cx.op("ReduceMin", &[numbers, axes], attrs! { keepdims: true })?;
    Ok(cx.cast(least, DType::Bool)?)
}

/// Fails if the equation asks for only some of its `count` values, which JAX supports only on TPUs.
pub(crate) fn check_subset(cx: &Context<'_>, count: &Dim, values: &str) -> Result<()> {
    let subset: Option<(Dim, Dim)> = cx.param_or("subset_by_index", None)?;
    if subset.is_none_or(|(start, end)| start == ZERO && end == *count) {
        return Ok(());
    }
    let reason = format!("computing only some of the {values} is not supported");
    let help = "compute all of them and select the ones you need";
    Err(RuleError::unsupported(reason).with_help(help))
}

/// Returns a mask (…, 1, 1) of the matrices whose elements are all finite.
#[track_caller]
pub(crate) fn is_finite(cx: &mut Context<'_>, x: Parts) -> Result<ValueId> {
    let size = x.size(cx)?;
    let infinity = cx.scalar_like(size, f64::INFINITY)?;
    let finite = cx.op("Less", &[size, infinity], Attrs::new())?;
    all(cx, finite, &[-2, -1])
}

/// Keeps `x` where `ok` holds, and replaces it with NaN elsewhere.
#[track_caller]
pub(crate) fn or_nan(cx: &mut Context<'_>, ok: ValueId, x: Parts) -> Result<Parts> {
    let nan = cx.scalar_like(x.re(), f64::NAN)?;
    x.each(cx, |cx, part| cx.op("Where", &[ok, part, nan], Attrs::new()))
}

/// Divides `x` by powers of two (…, 1, 1), so that its largest elements are near one and their
/// squares do not overflow. Also returns these powers.
#[track_caller]
pub(crate) fn balanced(cx: &mut Context<'_>, x: Parts) -> Result<(Parts, ValueId)> {
    let (size, axes) = (x.size(cx)?, cx.i64s(&[-2, -1]));
    let largest = cx.op("ReduceMax", &[size, axes], attrs! { keepdims: true })?;
    // Beyond this, either the power or its inverse is not a normal number.
    let most = if cx.dtype(x.re()) == DType::F64 { 1022.0 } else { 126.0 };
    let [power] = formulas(cx, [largest], |[largest]| {
        let largest = largest.equals(0.0).select(1.0, largest);
        let exponent = (largest.ln() / LN_2).floor().clip(-most, most);
        [largest.constant(2.0).pow(exponent)]
    })?;
    Ok((x.over(cx, power)?, power))
}

/// Returns the distance from one to the next number of the type.
pub(crate) fn epsilon(cx: &Context<'_>, x: Parts) -> f64 {
    if cx.dtype(x.re()) == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// Returns a scalar that is true if `mask` holds anywhere.
#[track_caller]
pub(crate) fn any(cx: &mut Context<'_>, mask: ValueId) -> Result<ValueId> {
    let numbers = cx.cast(mask, DType::U8)?;
    let most = cx.op("ReduceMax", &[numbers], attrs! { keepdims: false })?;
    Ok(cx.cast(most, DType::Bool)?)
}

/// Returns the sums (…, 1, 1) of the squares of all elements.
#[track_caller]
pub(crate) fn sum_of_squares(cx: &mut Context<'_>, x: Parts) -> Result<ValueId> {
    let (squares, axes) = (x.squared_modulus(cx)?, cx.i64s(&[-2, -1]));
    Ok(cx.op("ReduceSum", &[squares, axes], attrs! { keepdims: true })?)
}

/// Returns the Frobenius norms (…, 1, 1).
#[track_caller]
pub(crate) fn norm(cx: &mut Context<'_>, x: Parts) -> Result<ValueId> {
    let square = sum_of_squares(cx, x)?;
    Ok(cx.op("Sqrt", &[square], Attrs::new())?)
}
