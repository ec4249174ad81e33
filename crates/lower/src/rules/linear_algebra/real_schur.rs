//! The real Schur form, with a 2×2 block on the diagonal for every complex pair of eigenvalues.
//!
//! A Loop applies QR steps with two shifts at once, which are real or a conjugate pair, to the last
//! block that is larger than 2×2. Then all 2×2 blocks are brought into LAPACK's form. It runs in
//! double precision, because a step squares the matrix.

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use super::matrix;
use super::reflectors::{self, Order, Reflectors, reduce_column};
use super::schur::{Corner, is_patient, steps_for};
use crate::formula::formulas;
use crate::rules::control_flow::iteration::{Iteration, repeat, repeat_while};
use crate::rules::indexing::indices;
use crate::{Context, Parts, Result};

/// Returns the quasi-triangular matrices and their orthogonal bases. The result is NaN if a matrix
/// is not finite or the steps do not converge.
#[track_caller]
pub(super) fn form(cx: &mut Context<'_>, a: ValueId) -> Result<[Parts; 2]> {
    let (n, _) = matrix::sides(cx, Parts::Real(a));
    let limit = steps_for(&n);
    let a = Parts::Real(cx.cast(a, DType::F64)?);
    let finite = matrix::is_finite(cx, a)?;
    let a = a.keep(cx, finite)?;
    let (a, scale) = matrix::balanced(cx, a)?;
    let (a, basis) = hessenberg(cx, a, &n)?;
    let blocks = Blocks::new(cx, a, &n)?;
    let shape = cx.shape(blocks.negligible).to_vec();
    let (count, waited) = (cx.full(DType::I64, 0.0, &shape)?, cx.full(DType::I64, 0.0, &shape)?);
    let zero = cx.scalar(DType::I64, 0.0)?;
    let unfinished = cx.op("Equal", &[waited, zero], Attrs::new())?;
    let start = [a, basis, Parts::Real(count), Parts::Real(waited), Parts::Real(unfinished)];
    let done = repeat_while(cx, &limit, &start, |cx, carry| blocks.step(cx, carry))?;
    let ended = cx.op("Not", &[done[4].re()], Attrs::new())?;
    let ok = cx.op("And", &[finite, ended], Attrs::new())?;
    let (a, basis) = standardized(cx, done[0], done[1], &n)?;
    let a = a.mul(cx, Parts::Real(scale))?;
    Ok([matrix::or_nan(cx, ok, a)?, matrix::or_nan(cx, ok, basis)?])
}

/// Factors `a` into `basis` · hessenberg · `basis`ᵀ, with zeros below the first subdiagonal.
fn hessenberg(cx: &mut Context<'_>, a: Parts, n: &Dim) -> Result<(Parts, Parts)> {
    let places = matrix::places(cx, n)?;
    let steps = n.clone() - Dim::Known(1);
    let eye = matrix::identity(cx, n, n, a)?;
    if steps == Dim::Known(0) {
        return Ok((a, eye));
    }
    let done = repeat(cx, &steps, &[a], |cx, at, carry| {
        let step = reduce_column(cx, carry[0], places, at)?;
        let stack = vec![step.reflector.vector, step.reflector.tau];
        Ok(Iteration { carry: vec![step.rest], stack })
    })?;
    let vectors = matrix::from_columns(cx, done.stack[0])?;
    let taus = matrix::from_columns(cx, done.stack[1])?;
    let basis = Reflectors { vectors, taus }.apply(cx, eye, Order::LastToFirst, true, false)?;
    let a = matrix::upper(cx, done.carry[0], -1)?;
    Ok((a, basis))
}

/// The loop-invariant values of all steps.
struct Blocks {
    places: ValueId,
    numbers: ValueId,
    /// Ones above the diagonal.
    before: ValueId,
    eye: Parts,
    negligible: ValueId,
}

impl Blocks {
    fn new(cx: &mut Context<'_>, a: Parts, n: &Dim) -> Result<Self> {
        let (places, numbers) = (matrix::places(cx, n)?, indices::count(cx, n)?);
        let before = cx.op("Less", &[places, numbers], Attrs::new())?;
        let before = cx.cast(before, DType::F64)?;
        let eye = Parts::Real(matrix::eye(cx, DType::F64, n, n)?);
        let norm = matrix::norm(cx, a)?;
        let size = cx.dims(std::slice::from_ref(n))?;
        let size = cx.cast(size, DType::F64)?;
        let epsilon = cx.scalar_like(norm, f64::EPSILON)?;
        let epsilon = cx.op("Mul", &[size, epsilon], Attrs::new())?;
        let negligible = cx.op("Mul", &[norm, epsilon], Attrs::new())?;
        Ok(Self { places, numbers, before, eye, negligible })
    }

    /// Applies one step to the last block of more than two rows. Also returns whether such a block
    /// exists.
    fn step(&self, cx: &mut Context<'_>, carry: &[Parts]) -> Result<(ValueId, Vec<Parts>)> {
        let (a, basis, known, waited) = (carry[0], carry[1], carry[2].re(), carry[3].re());
        let ends = self.ends(cx, a)?;
        // The index of each row's block, along columns and along rows.
        let last_axis = cx.scalar(DType::I64, -1.0)?;
        let block = cx.op("CumSum", &[ends, last_axis], Attrs::new())?;
        let rows = Parts::Real(block).transpose(cx)?.re();
        let [staying, same] = formulas(cx, [rows, block], |[row, column]| {
            [!row.greater(column), row.equals(column).cast(DType::I64)]
        })?;
        let a = a.keep(cx, staying)?;

        let axes = cx.i64s(&[-2]);
        let sizes = cx.op("ReduceSum", &[same, axes], attrs! { keepdims: true })?;
        let [candidates] = formulas(cx, [sizes, self.numbers], |[size, number]| {
            [size.greater(2.0).select(number, 0.0)]
        })?;
        let axes = cx.i64s(&[-1]);
        let last = cx.op("ReduceMax", &[candidates, axes], attrs! { keepdims: true })?;
        let count = cx.op("ReduceMax", &[block, axes], attrs! { keepdims: true })?;
        let mine = Parts::Real(block).pick(cx, -1, last)?.re();
        let values = [last, count, known, waited, rows, block, mine];
        let [more, waited, inside] =
            formulas(cx, values, |[last, count, known, waited, row, column, mine]| {
                // A block of more than two rows does not end with the first one.
                let more = last.greater(0.0);
                let waited = count.equals(known).select(waited + 1.0, 0.0);
                [more, waited, column.equals(mine) & row.equals(mine) & more]
            })?;
        let window = a.keep(cx, inside)?;
        let (sum, product) = self.shifts(cx, window, last, waited)?;
        let square = window.matmul(cx, window)?;
        let linear = window.mul(cx, Parts::Real(sum))?;
        let constant = self.eye.mul(cx, Parts::Real(product))?;
        let shifted = square.sub(cx, linear)?.add(cx, constant)?;
        let shifted = shifted.or(cx, inside, self.eye)?;

        let (n, _) = matrix::sides(cx, a);
        let unitary = reflectors::factor(cx, shifted)?.0.product(cx, &n)?;
        let a = unitary.transpose(cx)?.matmul(cx, a)?.matmul(cx, unitary)?;
        let basis = basis.matmul(cx, unitary)?;
        let carry = [count, waited, more].map(Parts::Real);
        Ok((matrix::any(cx, more)?, [a, basis].into_iter().chain(carry).collect()))
    }

    /// Returns one for every row (…, 1, n) that starts a block: the rows from it on are negligible
    /// in the columns before it.
    fn ends(&self, cx: &mut Context<'_>, a: Parts) -> Result<ValueId> {
        let size = a.size(cx)?;
        let sums = cx.op("MatMul", &[size, self.before], Attrs::new())?;
        let from = cx.op("GreaterOrEqual", &[self.places, self.numbers], Attrs::new())?;
        let left = Parts::Real(sums).keep(cx, from)?.sum(cx, -2)?.re();
        let ends = cx.op("LessOrEqual", &[left, self.negligible], Attrs::new())?;
        Ok(cx.cast(ends, DType::I64)?)
    }

    /// Returns the sum and the product of the eigenvalues of the last two rows and columns, or
    /// exceptional shifts if those do not converge.
    fn shifts(
        &self,
        cx: &mut Context<'_>,
        window: Parts,
        last: ValueId,
        waited: ValueId,
    ) -> Result<(ValueId, ValueId)> {
        let corner = Corner::of(cx, window, last)?;
        let rest = corner.rest(cx, self.numbers, last)?;
        let usual = is_patient(cx, waited)?;
        let [a, b, c, d] = corner.elements.map(Parts::re);
        let entries = [usual, a, b, c, d, rest];
        let [sum, product] = formulas(cx, entries, |[usual, a, b, c, d, rest]| {
            let aside = rest * 0.75 + d;
            [
                usual.select(a + d, aside * 2.0),
                usual.select(a * d - b * c, aside.squared() + rest.squared() * 0.4375),
            ]
        })?;
        Ok((sum, product))
    }
}

/// Rotates the 2×2 blocks. They become triangular if their eigenvalues are real, and get equal
/// diagonal elements otherwise.
fn standardized(cx: &mut Context<'_>, a: Parts, basis: Parts, n: &Dim) -> Result<(Parts, Parts)> {
    let (places, numbers) = (matrix::places(cx, n)?, indices::count(cx, n)?);
    let one = cx.scalar(DType::I64, 1.0)?;
    let (below, behind) =
        (cx.op("Add", &[numbers, one], Attrs::new())?, cx.op("Add", &[places, one], Attrs::new())?);
    let on = cx.op("Equal", &[places, numbers], Attrs::new())?;
    let under = cx.op("Equal", &[places, below], Attrs::new())?;
    let above = cx.op("Equal", &[behind, numbers], Attrs::new())?;
    // In each column, the block p q over r s that starts there if r is not zero.
    let p = a.keep(cx, on)?.sum(cx, -2)?;
    let r = a.keep(cx, under)?.sum(cx, -2)?;
    let q = a.keep(cx, above)?.sum(cx, -1)?.transpose(cx)?;
    let s = p.keep(cx, above)?.sum(cx, -1)?.transpose(cx)?;
    let block = [p.re(), q.re(), r.re(), s.re()];
    let [cosine, sine, triangular] = formulas(cx, block, |[p, q, r, s]| {
        let half = (p - s) * 0.5;
        let square = half.squared() + q * r;
        let triangular = square.at_least(0.0);
        let root = triangular.select(square, 0.0).sqrt();
        let far = half + half.less(0.0).select(-root, root);
        let length = (far.squared() + r.squared()).sqrt();
        // Otherwise, these are the parts of twice the rotation angle.
        let (x, y) = ((q + r).abs(), (q + r).less(0.0).select(p - s, s - p));
        let double = (x.squared() + y.squared()).sqrt();
        let straight = double.equals(0.0);
        let divisor = straight.select(1.0, double);
        let cosine = ((straight.select(1.0, x / divisor) + 1.0) * 0.5).sqrt();
        let sine = y / divisor / cosine * 0.5;
        let none = r.equals(0.0);
        let length = none.select(1.0, length);
        [
            none.select(1.0, triangular.select(far / length, cosine)),
            none.select(0.0, triangular.select(r / length, sine)),
            triangular,
        ]
    })?;
    let (cosine, sine) = (Parts::Real(cosine), Parts::Real(sine));
    // The second column of a block has the cosine of the first, and no cosine of its own.
    let first = cx.scalar(DType::I64, 0.0)?;
    let first = cx.op("Equal", &[places, first], Attrs::new())?;
    let first = Parts::Real(cx.cast(first, DType::F64)?);
    let before = cosine.keep(cx, under)?.sum(cx, -1)?.add(cx, first)?;
    let diagonal = cosine.mul(cx, before)?.keep(cx, on)?;
    let turn = sine.keep(cx, under)?;
    let back = turn.transpose(cx)?;
    let rotation = diagonal.add(cx, turn)?.sub(cx, back)?;
    let a = rotation.transpose(cx)?.matmul(cx, a)?.matmul(cx, rotation)?;
    let basis = basis.matmul(cx, rotation)?;
    let vanishing = cx.op("And", &[under, triangular], Attrs::new())?;
    let staying = cx.op("Not", &[vanishing], Attrs::new())?;
    Ok((a.keep(cx, staying)?, basis))
}
