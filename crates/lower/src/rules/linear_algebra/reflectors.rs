//! Householder reflectors H = 1 - τ v vᴴ, computed and stored as in LAPACK.

use onnx::{Attrs, ValueId, attrs};
use tensor::{Dim, DimOp};

use super::matrix;
use crate::rules::control_flow::iteration::{Iteration, repeat};
use crate::{Context, Parts, Result};

/// Reflectors H₀, H₁, …: the columns of (…, m, k), and the factors τ (…, 1, k).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reflectors {
    pub(crate) vectors: Parts,
    pub(crate) taus: Parts,
}

/// A single reflector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reflector {
    /// The vector v, which is one at the pivot and zero before it.
    pub(crate) vector: Parts,
    pub(crate) tau: Parts,
}

impl Reflector {
    /// Returns the reflector whose adjoint maps `column` (…, m, 1), from the position `at` on, to a
    /// multiple of a unit vector. Also returns that multiple, which is real: it has the norm of
    /// that part, and the opposite sign of the pivot.
    #[track_caller]
    pub(crate) fn of_column(
        cx: &mut Context<'_>,
        column: Parts,
        places: ValueId,
        at: ValueId,
    ) -> Result<(Self, ValueId)> {
        let behind = cx.op("Greater", &[places, at], Attrs::new())?;
        let tail = column.keep(cx, behind)?;
        let alpha = column.take(cx, -2, at)?;
        // If everything after the pivot is zero and the pivot is real, the column is already a
        // multiple of the unit vector. The reflector is then the identity.
        let rest = match alpha.im() {
            None => tail.size(cx)?,
            Some(im) => {
                let (tail, im) = (tail.size(cx)?, cx.op("Abs", &[im], Attrs::new())?);
                cx.op("Max", &[tail, im], Attrs::new())?
            }
        };
        let axes = cx.i64s(&[-2]);
        let rest = cx.op("ReduceMax", &[rest, axes], attrs! { keepdims: true })?;
        let (zero, one) = (cx.scalar_like(rest, 0.0)?, cx.scalar_like(rest, 1.0)?);
        let trivial = cx.op("Equal", &[rest, zero], Attrs::new())?;

        let before = cx.op("Less", &[places, at], Attrs::new())?;
        let from = cx.op("Not", &[before], Attrs::new())?;
        let norm = column.keep(cx, from)?;
        let norm = norm_of_columns(cx, norm)?;
        let minus = cx.op("Neg", &[norm], Attrs::new())?;
        let negative = cx.op("Less", &[alpha.re(), zero], Attrs::new())?;
        let beta = cx.op("Where", &[negative, norm, minus], Attrs::new())?;
        let real_beta = Parts::Real(beta).in_kind_of(cx, alpha)?;
        let difference = real_beta.sub(cx, alpha)?;
        let safe = cx.op("Where", &[trivial, one, beta], Attrs::new())?;
        let tau = difference.over(cx, safe)?;
        let reflects = cx.op("Not", &[trivial], Attrs::new())?;
        let tau = tau.keep(cx, reflects)?;
        let scale = difference.neg(cx)?.or(cx, reflects, Parts::Real(one))?;
        let vector = tail.div(cx, scale)?;
        let here = cx.op("Equal", &[places, at], Attrs::new())?;
        let elsewhere = cx.op("Not", &[here], Attrs::new())?;
        let vector = vector.or(cx, elsewhere, Parts::Real(one))?;
        let beta = cx.op("Where", &[trivial, alpha.re(), beta], Attrs::new())?;
        Ok((Self { vector, tau }, beta))
    }

    /// Returns H x.
    #[track_caller]
    pub(crate) fn apply(&self, cx: &mut Context<'_>, x: Parts) -> Result<Parts> {
        let row = self.vector.adjoint(cx)?.matmul(cx, x)?;
        let scaled = self.vector.mul(cx, self.tau)?;
        let share = scaled.mul(cx, row)?;
        x.sub(cx, share)
    }

    /// Returns x H.
    #[track_caller]
    pub(crate) fn apply_right(&self, cx: &mut Context<'_>, x: Parts) -> Result<Parts> {
        let column = x.matmul(cx, self.vector)?.mul(cx, self.tau)?;
        let row = self.vector.adjoint(cx)?;
        let share = column.mul(cx, row)?;
        x.sub(cx, share)
    }

    /// Packs `column` as in LAPACK: the elements before the pivot at the position `at`, the
    /// multiple `beta`, and the rest of the vector.
    #[track_caller]
    pub(crate) fn packed(
        &self,
        cx: &mut Context<'_>,
        column: Parts,
        beta: ValueId,
        places: ValueId,
        at: ValueId,
    ) -> Result<Parts> {
        let before = cx.op("Less", &[places, at], Attrs::new())?;
        let packed = column.or(cx, before, self.vector)?;
        let here = cx.op("Equal", &[places, at], Attrs::new())?;
        let elsewhere = cx.op("Not", &[here], Attrs::new())?;
        packed.or(cx, elsewhere, Parts::Real(beta))
    }

    /// Returns the adjoint.
    #[track_caller]
    pub(crate) fn adjoint(&self, cx: &mut Context<'_>) -> Result<Self> {
        Ok(Self { tau: self.tau.conj(cx)?, ..*self })
    }
}

/// Returns the Euclidean norms (…, 1, n) of columns, even if their squares overflow.
#[track_caller]
pub(crate) fn norm_of_columns(cx: &mut Context<'_>, x: Parts) -> Result<ValueId> {
    let (size, axes) = (x.size(cx)?, cx.i64s(&[-2]));
    let largest = cx.op("ReduceMax", &[size, axes], attrs! { keepdims: true })?;
    let (zero, one) = (cx.scalar_like(largest, 0.0)?, cx.scalar_like(largest, 1.0)?);
    let nothing = cx.op("Equal", &[largest, zero], Attrs::new())?;
    let scale = cx.op("Where", &[nothing, one, largest], Attrs::new())?;
    let square = x.over(cx, scale)?.squared_modulus(cx)?;
    let sum = cx.op("ReduceSum", &[square, axes], attrs! { keepdims: true })?;
    let root = cx.op("Sqrt", &[sum], Attrs::new())?;
    Ok(cx.op("Mul", &[root, scale], Attrs::new())?)
}

/// Returns the reflectors that make `a` (…, m, n) upper triangular, and the triangle (…, min(m, n),
/// n).
#[track_caller]
pub(crate) fn factor(cx: &mut Context<'_>, a: Parts) -> Result<(Reflectors, Parts)> {
    let (m, n) = matrix::sides(cx, a);
    let places = matrix::places(cx, &m)?;
    let steps = Dim::op(DimOp::Min, &m, &n);
    let done = repeat(cx, &steps, &[a], |cx, at, carry| {
        let column = carry[0].take(cx, -1, at)?;
        let (reflector, _) = Reflector::of_column(cx, column, places, at)?;
        let rest = reflector.adjoint(cx)?.apply(cx, carry[0])?;
        let row = rest.take(cx, -2, at)?;
        Ok(Iteration { carry: vec![rest], stack: vec![reflector.vector, reflector.tau, row] })
    })?;
    let vectors = matrix::from_columns(cx, done.stack[0])?;
    let taus = matrix::from_columns(cx, done.stack[1])?;
    let triangle = matrix::from_rows(cx, done.stack[2])?;
    Ok((Reflectors { vectors, taus }, matrix::upper(cx, triangle, 0)?))
}

/// The results of one step of a two-sided reduction to the diagonals.
pub(crate) struct ReducedColumn {
    pub(crate) column: Parts,
    pub(crate) reflector: Reflector,
    pub(crate) beta: ValueId,
    /// The column as packed by LAPACK.
    pub(crate) packed: Parts,
    /// The matrix with the reflector applied to its rows and columns.
    pub(crate) rest: Parts,
}

/// Reduces the column `at` of `a` to zeros below the first subdiagonal.
#[track_caller]
pub(crate) fn reduce_column(
    cx: &mut Context<'_>,
    a: Parts,
    places: ValueId,
    at: ValueId,
) -> Result<ReducedColumn> {
    let column = a.take(cx, -1, at)?;
    let one = cx.i64s(&[1]);
    let next = cx.op("Add", &[at, one], Attrs::new())?;
    let (reflector, beta) = Reflector::of_column(cx, column, places, next)?;
    let rest = reflector.apply_right(cx, a)?;
    let rest = reflector.adjoint(cx)?.apply(cx, rest)?;
    let packed = reflector.packed(cx, column, beta, places, next)?;
    Ok(ReducedColumn { column, reflector, beta, packed, rest })
}

/// The order that reflectors are applied in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    FirstToLast,
    LastToFirst,
}

impl Reflectors {
    /// Unpacks reflectors that LAPACK stores below the diagonals of `packed` (…, m, n), with
    /// factors (…, k). The ones on the diagonals and the zeros above them are not stored.
    #[track_caller]
    pub(crate) fn unpack(cx: &mut Context<'_>, packed: Parts, taus: Parts) -> Result<Self> {
        let (m, n) = matrix::sides(cx, packed);
        let taus = taus.each(cx, |cx, part| cx.unsqueeze(part, &[-2]))?;
        let (_, k) = matrix::sides(cx, taus);
        let vectors = if k == n { packed } else { packed.slice(cx, -1, &Dim::Known(0), &k)? };
        let vectors = matrix::lower(cx, vectors, -1)?;
        let eye = matrix::eye(cx, cx.dtype(packed.re()), &m, &k)?;
        let re = cx.op("Add", &[vectors.re(), eye], Attrs::new())?;
        Ok(Self { vectors: Parts::new(re, vectors.im()), taus })
    }

    /// Applies each reflector, or its adjoint, to `x` from one side.
    #[track_caller]
    pub(crate) fn apply(
        &self,
        cx: &mut Context<'_>,
        x: Parts,
        order: Order,
        left: bool,
        adjoint: bool,
    ) -> Result<Parts> {
        let (_, count) = matrix::sides(cx, self.vectors);
        let last = cx.dims(&[count.clone() - Dim::Known(1)])?;
        let done = repeat(cx, &count, &[x], |cx, at, carry| {
            let at = match order {
                Order::FirstToLast => at,
                Order::LastToFirst => cx.op("Sub", &[last, at], Attrs::new())?,
            };
            let (vector, tau) = (self.vectors.take(cx, -1, at)?, self.taus.take(cx, -1, at)?);
            let mut reflector = Reflector { vector, tau };
            if adjoint {
                reflector = reflector.adjoint(cx)?;
            }
            let next = match left {
                true => reflector.apply(cx, carry[0])?,
                false => reflector.apply_right(cx, carry[0])?,
            };
            Ok(Iteration { carry: vec![next], stack: Vec::new() })
        })?;
        Ok(done.carry[0])
    }

    /// Returns the first `columns` columns of H₀ H₁ ….
    #[track_caller]
    pub(crate) fn product(&self, cx: &mut Context<'_>, columns: &Dim) -> Result<Parts> {
        let (m, _) = matrix::sides(cx, self.vectors);
        let eye = matrix::identity(cx, &m, columns, self.vectors)?;
        self.apply(cx, eye, Order::LastToFirst, true, false)
    }
}
