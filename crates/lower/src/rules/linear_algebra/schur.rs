//! schur(a) → Loop of shifted QR steps, until the rows are zero before the diagonal, starting with
//! the last row; NaN if they do not converge. Real matrices have another form: `real_schur.rs`

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use super::matrix;
use super::{real_schur, reflectors};
use crate::formula::formulas;
use crate::formula::number::{Number, number};
use crate::rules::control_flow::iteration::repeat_while;
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let vectors: bool = cx.param("compute_schur_vectors")?;
    if cx.param_or("sort_eig_vals", false)? {
        return Err(RuleError::unsupported("sorting the eigenvalues is not supported"));
    }
    let a = Parts::read(cx, x[0])?;
    if matrix::is_empty(cx, a) {
        return Ok(vec![x[0]; if vectors { 2 } else { 1 }]);
    }
    if a.im().is_none() {
        let form = real_schur::form(cx, a.re())?;
        let wanted = &form[..if vectors { 2 } else { 1 }];
        return wanted.iter().enumerate().map(|(i, part)| part.write(cx, i)).collect();
    }
    let form = Form::of(cx, a)?;
    let triangle = form.triangle.mul(cx, Parts::Real(form.scale))?;
    let mut results = vec![matrix::or_nan(cx, form.ok, triangle)?.write(cx, 0)?];
    if vectors {
        results.push(matrix::or_nan(cx, form.ok, form.basis)?.write(cx, 1)?);
    }
    Ok(results)
}

/// A complex matrix, factored into `scale` · `basis` · `triangle` · `basis`ᴴ.
pub(crate) struct Form {
    pub(crate) triangle: Parts,
    pub(crate) basis: Parts,
    pub(crate) scale: ValueId,
    /// The mask (…, 1, 1) of matrices that were finite and converged.
    pub(crate) ok: ValueId,
}

/// The maximum number of QR steps per eigenvalue. Two or three are usual.
const STEPS: i64 = 40;

/// The number of steps without convergence before an exceptional shift.
const PATIENCE: f64 = 8.0;

/// Returns the maximum number of steps for matrices with `n` rows.
pub(super) fn steps_for(n: &Dim) -> Dim {
    n.clone() * Dim::Known(STEPS)
}

impl Form {
    #[track_caller]
    pub(crate) fn of(cx: &mut Context<'_>, a: Parts) -> Result<Self> {
        let (n, _) = matrix::sides(cx, a);
        let limit = steps_for(&n);
        let finite = matrix::is_finite(cx, a)?;
        let a = a.keep(cx, finite)?;
        let (a, scale) = matrix::balanced(cx, a)?;
        let basis = matrix::identity(cx, &n, &n, a)?;
        let norm = matrix::norm(cx, a)?;
        let epsilon = cx.scalar_like(norm, matrix::epsilon(cx, a))?;
        let limits = Limits {
            places: matrix::places(cx, &n)?,
            numbers: indices::count(cx, &n)?,
            negligible: cx.op("Mul", &[norm, epsilon], Attrs::new())?,
        };
        let shape = cx.shape(norm).to_vec();
        let left = cx.dims(&[n])?;
        let left = cx.expand(left, &shape)?;
        let waited = cx.full(DType::I64, 0.0, &shape)?;
        let start = [a, basis, Parts::Real(left), Parts::Real(waited)];
        let done = repeat_while(cx, &limit, &start, |cx, carry| limits.step(cx, carry))?;
        let one = cx.scalar(DType::I64, 1.0)?;
        let ended = cx.op("LessOrEqual", &[done[2].re(), one], Attrs::new())?;
        let ok = cx.op("And", &[finite, ended], Attrs::new())?;
        Ok(Self { triangle: matrix::upper(cx, done[0], 0)?, basis: done[1], scale, ok })
    }
}

/// The loop-invariant values of all steps.
struct Limits {
    places: ValueId,
    numbers: ValueId,
    negligible: ValueId,
}

impl Limits {
    /// Applies one step to the block of rows and columns that are left. Also returns whether to
    /// continue.
    fn step(&self, cx: &mut Context<'_>, carry: &[Parts]) -> Result<(ValueId, Vec<Parts>)> {
        let (a, basis, left, waited) = (carry[0], carry[1], carry[2].re(), carry[3].re());
        let within = [left, self.places, self.numbers];
        let [last, block] = formulas(cx, within, |[left, row, column]| {
            [left - 1.0, row.less(left) & column.less(left)]
        })?;
        let shift = self.shift(cx, a, last, waited)?;
        let (n, _) = matrix::sides(cx, a);
        let eye = matrix::eye(cx, cx.dtype(a.re()), &n, &n)?;
        let diagonal = shift.mul(cx, Parts::Real(eye))?;
        let shifted = a.sub(cx, diagonal)?.or(cx, block, Parts::Real(eye))?;
        let unitary = reflectors::factor(cx, shifted)?.0.product(cx, &n)?;
        let adjoint = unitary.adjoint(cx)?;
        let a = adjoint.matmul(cx, a)?.matmul(cx, unitary)?;
        let basis = basis.matmul(cx, unitary)?;

        let [rest] = formulas(cx, [self.places, self.numbers, last], |[row, column, last]| {
            [row.equals(last) & column.less(last)]
        })?;
        let (size, axes) = (a.keep(cx, rest)?.size(cx)?, cx.i64s(&[-2, -1]));
        let size = cx.op("ReduceSum", &[size, axes], attrs! { keepdims: true })?;
        let values = [rest, size, self.negligible, last, left, waited];
        let [staying, left, waited, more] =
            formulas(cx, values, |[rest, size, negligible, last, left, waited]| {
                let found = size.at_most(negligible);
                let left = found.select(last.max(1.0), left);
                let waited = found.select(0.0, waited + 1.0);
                [!(rest & found), left, waited, left.greater(1.0)]
            })?;
        let a = a.keep(cx, staying)?;
        let carry = vec![a, basis, Parts::Real(left), Parts::Real(waited)];
        Ok((matrix::any(cx, more)?, carry))
    }

    /// Returns the eigenvalue of the last two rows and columns that is closest to the last element,
    /// or an exceptional shift if that does not converge.
    fn shift(
        &self,
        cx: &mut Context<'_>,
        x: Parts,
        last: ValueId,
        waited: ValueId,
    ) -> Result<Parts> {
        let corner = Corner::of(cx, x, last)?;
        let [a, b, c, d] = corner.elements;
        let near = number(cx, [a, b, c, d], |[a, b, c, d]| {
            let half = (a - d).each(|part| part * 0.5);
            let product = b * c;
            let root = square_root(half * half + product);
            let (plus, minus) = (half + root, half - root);
            let divisor = plus.or(plus.norm().at_least(minus.norm()), minus);
            let is_safe = divisor.size().greater(0.0);
            d - product / divisor.or(is_safe, a.re.constant(1.0).into())
        })?;
        let rest = Parts::Real(corner.rest(cx, self.numbers, last)?);
        let aside = number(cx, [d, rest], |[d, rest]| {
            d + Number::complex(rest.re * 0.75, rest.re * 0.4375)
        })?;
        let usual = is_patient(cx, waited)?;
        near.or(cx, usual, aside)
    }
}

/// The last two rows and columns of a block.
pub(super) struct Corner {
    /// The elements in row-major order.
    pub(super) elements: [Parts; 4],
    /// The whole last row.
    row: Parts,
}

impl Corner {
    pub(super) fn of(cx: &mut Context<'_>, x: Parts, last: ValueId) -> Result<Self> {
        let (one, zero) = (cx.scalar(DType::I64, 1.0)?, cx.scalar(DType::I64, 0.0)?);
        let previous = cx.op("Sub", &[last, one], Attrs::new())?;
        let previous = cx.op("Max", &[previous, zero], Attrs::new())?;
        let (upper, row) = (x.row(cx, previous)?, x.row(cx, last)?);
        let (a, b) = (upper.pick(cx, -1, previous)?, upper.pick(cx, -1, last)?);
        let (c, d) = (row.pick(cx, -1, previous)?, row.pick(cx, -1, last)?);
        Ok(Self { elements: [a, b, c, d], row })
    }

    /// Returns the magnitude of the last row before the diagonal.
    pub(super) fn rest(
        &self,
        cx: &mut Context<'_>,
        numbers: ValueId,
        last: ValueId,
    ) -> Result<ValueId> {
        let before = cx.op("Less", &[numbers, last], Attrs::new())?;
        let rest = self.row.keep(cx, before)?.size(cx)?;
        Ok(Parts::Real(rest).sum(cx, -1)?.re())
    }
}

/// Returns a condition that holds if the usual shift is taken after `waited` steps without
/// convergence.
pub(super) fn is_patient(cx: &mut Context<'_>, waited: ValueId) -> Result<ValueId> {
    let patience = cx.scalar(DType::I64, PATIENCE)?;
    let turn = cx.op("Mod", &[waited, patience], Attrs::new())?;
    let end = cx.scalar(DType::I64, PATIENCE - 1.0)?;
    Ok(cx.op("Less", &[turn, end], Attrs::new())?)
}

/// Returns the square root with a non-negative real part.
fn square_root(z: Number<'_>) -> Number<'_> {
    let (re, im) = (z.re, z.im());
    let modulus = (re.squared() + im.squared()).sqrt();
    let larger = ((modulus + re.abs()) * 0.5).sqrt();
    let divisor = larger.equals(0.0).select(1.0, larger);
    let smaller = im / divisor * 0.5;
    // The parts of the root of -z are those of the root of z, exchanged.
    let (negative, below) = (re.less(0.0), im.less(0.0));
    let signed = below.select(-larger, larger);
    Number::complex(negative.select(smaller.abs(), larger), negative.select(signed, smaller))
}
