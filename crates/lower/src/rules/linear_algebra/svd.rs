//! svd[full_matrices, compute_uv](a) → Loop of one-sided Jacobi sweeps until all rows are
//! orthogonal, after a QR decomposition if there are more rows than columns; in descending order

use onnx::{Attrs, ValueId, attrs};
use tensor::{Dim, DimOp, bounds};

use super::jacobi::{self, Pairs};
use super::matrix;
use super::reflectors;
use crate::formula::formulas;
use crate::rules::control_flow::iteration::{Iteration, repeat, repeat_while};
use crate::{Context, Parts, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    let full: bool = cx.param("full_matrices")?;
    let vectors: bool = cx.param("compute_uv")?;
    let a = Parts::read(cx, x[0])?;
    let (m, n) = matrix::sides(cx, a);
    let least = Dim::op(DimOp::Min, &m, &n);
    matrix::check_subset(cx, &least, "singular values")?;
    if matrix::is_empty(cx, a) {
        return empty(cx, a, vectors);
    }
    let is_tall = bounds::at_least(&(m.clone() - n.clone()), 0);
    let is_wide = !is_tall && bounds::at_least(&(n.clone() - m.clone()), 0);
    if vectors && !is_tall && !is_wide {
        return Err(RuleError::unsupported(format!(
            "singular vectors need to know whether `{m}` or `{n}` is larger"
        ))
        .with_help(format!(
            "say it with a constraint: jax.export.symbolic_shape(…, constraints=[\"{m} >= {n}\"])"
        )));
    }
    let finite = matrix::is_finite(cx, a)?;
    // One bad matrix must not end the sweeps for the rest of its batch.
    let a = a.keep(cx, finite)?;
    let (a, scale) = matrix::balanced(cx, a)?;
    let tall = if is_tall {
        a
    } else if is_wide {
        // A wide matrix is the adjoint of a tall one.
        a.adjoint(cx)?
    } else {
        // More rows or columns of zeros add only zeros to the singular values.
        let side = Dim::op(DimOp::Max, &m, &n);
        matrix::padded(cx, a, &side, &side)?
    };
    let mut triple = decompose(cx, tall, vectors.then_some(full))?;
    if !is_tall && !is_wide {
        triple.values = Parts::Real(triple.values).slice(cx, -2, &Dim::Known(0), &least)?.re();
    }
    if n == Dim::Known(1) && a.im().is_none() {
        triple.vectors = sign_on_the_left(cx, triple.vectors)?;
    }
    let values = cx.op("Mul", &[triple.values, scale], Attrs::new())?;
    let values = matrix::or_nan(cx, finite, Parts::Real(values))?.re();
    let values = Parts::Real(cx.squeeze(values, &[-1])?);
    let mut results = vec![values.write(cx, 0)?];
    if let Some((left, right)) = triple.vectors {
        let (left, right) =
            if is_wide { (right.adjoint(cx)?, left.adjoint(cx)?) } else { (left, right) };
        for (i, side) in [left, right].into_iter().enumerate() {
            results.push(matrix::or_nan(cx, finite, side)?.write(cx, i + 1)?);
        }
    }
    Ok(results)
}

/// Returns JAX's results for empty matrices: the vectors of full matrices are those of the
/// identity.
fn empty(cx: &mut Context<'_>, a: Parts, vectors: bool) -> Result<Vec<Parts>> {
    let mut results = vec![Parts::zeros(cx, 0, Parts::Real(a.re()))?];
    for i in 1..if vectors { 3 } else { 1 } {
        let shape = cx.out(i).shape;
        let rank = shape.len();
        results.push(if shape[rank - 2] == shape[rank - 1] {
            matrix::identity(cx, &shape[rank - 2], &shape[rank - 1], a)?.write(cx, i)?
        } else {
            Parts::zeros(cx, i, a)?
        });
    }
    Ok(results)
}

/// Singular values (…, n, 1), left vectors as columns, and conjugated right vectors as rows.
struct Triple {
    values: ValueId,
    vectors: Option<(Parts, Parts)>,
}

/// Moves the sign of a single column to the first left vector, because its right vector is 1 in
/// JAX.
fn sign_on_the_left(
    cx: &mut Context<'_>,
    vectors: Option<(Parts, Parts)>,
) -> Result<Option<(Parts, Parts)>> {
    let Some((left, right)) = vectors else { return Ok(None) };
    let (rows, columns) = matrix::sides(cx, left);
    let one = Dim::Known(1);
    let first = left.slice(cx, -1, &Dim::Known(0), &one)?;
    let signed = Parts::Real(cx.op("Mul", &[first.re(), right.re()], Attrs::new())?);
    let left = if columns == one || rows == one {
        signed
    } else {
        let rest = left.slice(cx, -1, &one, &columns)?;
        signed.concat(cx, -1, rest)?
    };
    let right = Parts::Real(cx.op("Abs", &[right.re()], Attrs::new())?);
    Ok(Some((left, right)))
}

/// Decomposes a matrix that has at least as many rows as columns. `full` selects the vectors, if
/// any.
fn decompose(cx: &mut Context<'_>, a: Parts, full: Option<bool>) -> Result<Triple> {
    let (m, n) = matrix::sides(cx, a);
    let (reflectors, square) = if bounds::same(&m, &n) {
        (None, a)
    } else {
        let (reflectors, triangle) = reflectors::factor(cx, a)?;
        (Some(reflectors), triangle)
    };
    // With sᴴ V = W, and W's columns orthogonal, s is V Wᴴ. Both are computed as rows.
    let conjugate = square.conj(cx)?;
    let (rows, turned) = orthogonalize(cx, conjugate, &n, full.is_some())?;
    let transposed = rows.transpose(cx)?;
    let lengths = reflectors::norm_of_columns(cx, transposed)?;
    let lengths = Parts::Real(lengths).transpose(cx)?.re();
    let (values, order) = jacobi::sorted(cx, lengths, &n, true)?;
    let (Some(turned), Some(full)) = (turned, full) else {
        return Ok(Triple { values, vectors: None });
    };
    let rows = jacobi::reordered(cx, rows, order)?;
    let right = normalized(cx, rows)?.adjoint(cx)?;
    let left = jacobi::reordered(cx, turned, order)?.transpose(cx)?;
    let left = match reflectors {
        None => left,
        Some(reflectors) if full => {
            let basis = reflectors.product(cx, &m)?;
            let first = basis.slice(cx, -1, &Dim::Known(0), &n)?.matmul(cx, left)?;
            let rest = basis.slice(cx, -1, &n, &m)?;
            first.concat(cx, -1, rest)?
        }
        Some(reflectors) => {
            let basis = reflectors.product(cx, &n)?;
            basis.matmul(cx, left)?
        }
    };
    Ok(Triple { values, vectors: Some((left, right)) })
}

/// Rotates rows until they are orthogonal. Also returns the rows of the identity, rotated with
/// them.
fn orthogonalize(
    cx: &mut Context<'_>,
    rows: Parts,
    n: &Dim,
    vectors: bool,
) -> Result<(Parts, Option<Parts>)> {
    let pairs = Pairs::new(cx, n)?;
    let even = pairs.rows();
    let epsilon = matrix::epsilon(cx, rows);
    let padded = matrix::padded(cx, rows, &even, n)?;
    let mut start = vec![padded];
    if vectors {
        start.push(matrix::identity(cx, &even, n, rows)?);
    }
    let limit = rounding_error(cx, rows, n, epsilon)?;
    // Rows this much shorter than the longest are rounding errors, orthogonal or not.
    let floor = cx.scalar_like(rows.re(), epsilon * epsilon)?;
    let none = cx.scalar_like(rows.re(), 0.0)?;

    let done = repeat_while(cx, &jacobi::SWEEPS, &start, |cx, carry| {
        let carry = [carry, &[Parts::Real(none)]].concat();
        let mut sweep = repeat(cx, &(even - Dim::Known(1)), &carry, |cx, _, carry| {
            let (rows, worst) = (carry[0], carry[carry.len() - 1].re());
            let (upper, lower) = pairs.halves(cx, rows)?;
            let (first, second) = (length(cx, upper)?, length(cx, lower)?);
            let between = upper.conj(cx)?.mul(cx, lower)?.sum(cx, -1)?;
            let angle = cosine(cx, first, second, between, floor)?;
            let worst = cx.op("Max", &[worst, angle], Attrs::new())?;
            let by = pairs.rotations(cx, first, second, between)?;
            let mut next = Vec::with_capacity(carry.len());
            for rows in &carry[..carry.len() - 1] {
                next.push(pairs.rotate(cx, *rows, by)?);
            }
            next.push(Parts::Real(worst));
            Ok(Iteration { carry: next, stack: Vec::new() })
        })?;
        let worst = sweep.carry.pop().map_or(none, crate::parts::Parts::re);
        let more = cx.op("Greater", &[worst, limit], Attrs::new())?;
        Ok((more, sweep.carry))
    })?;
    let first = |cx: &mut Context<'_>, x: Parts| x.slice(cx, -2, &Dim::Known(0), n);
    let rows = first(cx, done[0])?;
    let turned = done.get(1).map(|x| first(cx, *x)).transpose()?;
    Ok((rows, turned))
}

/// Returns the maximum cosine between rows of `n` numbers that count as orthogonal.
#[track_caller]
fn rounding_error(cx: &mut Context<'_>, rows: Parts, n: &Dim, epsilon: f64) -> Result<ValueId> {
    #[expect(clippy::cast_precision_loss, reason = "an estimate of rounding errors")]
    if let Some(known) = n.as_known() {
        return cx.scalar_like(rows.re(), epsilon * (known as f64).sqrt());
    }
    let (count, dtype) = (cx.size(n)?, cx.dtype(rows.re()));
    let count = cx.cast(count, dtype)?;
    let [error] = formulas(cx, [count], |[count]| [count.sqrt() * epsilon])?;
    Ok(error)
}

/// Returns the squared lengths of rows.
#[track_caller]
fn length(cx: &mut Context<'_>, rows: Parts) -> Result<ValueId> {
    let square = rows.squared_modulus(cx)?;
    Ok(Parts::Real(square).sum(cx, -1)?.re())
}

/// Returns the largest cosine of the angles between paired rows, given their squared lengths and
/// their products.
fn cosine(
    cx: &mut Context<'_>,
    first: ValueId,
    second: ValueId,
    between: Parts,
    floor: ValueId,
) -> Result<ValueId> {
    let (a, b) = (cx.op("Sqrt", &[first], Attrs::new())?, cx.op("Sqrt", &[second], Attrs::new())?);
    let lengths = cx.op("Mul", &[a, b], Attrs::new())?;
    let lengths = cx.op("Add", &[lengths, floor], Attrs::new())?;
    let size = between.size(cx)?;
    let cosine = cx.op("Div", &[size, lengths], Attrs::new())?;
    Ok(cx.op("ReduceMax", &[cosine], attrs! { keepdims: false })?)
}

/// Turns orthogonal rows of descending length into the columns of a unitary matrix. Where a row is
/// zero, the reflectors provide a vector that is orthogonal to the others.
fn normalized(cx: &mut Context<'_>, rows: Parts) -> Result<Parts> {
    let columns = rows.transpose(cx)?;
    let (n, _) = matrix::sides(cx, columns);
    let (reflectors, triangle) = reflectors::factor(cx, columns)?;
    let unitary = reflectors.product(cx, &n)?;
    let eye = matrix::eye(cx, tensor::DType::Bool, &n, &n)?;
    let diagonal = Parts::Real(triangle.re()).keep(cx, eye)?.sum(cx, -2)?.re();
    let [sign] = formulas(cx, [diagonal], |[x]| [x.less(0.0).select(x.constant(-1.0), 1.0)])?;
    unitary.mul(cx, Parts::Real(sign))
}
