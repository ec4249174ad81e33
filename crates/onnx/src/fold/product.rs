//! Matrix products and convolutions.

use tensor::Tensor;

use super::layout::{broadcast_strides, positions};
use super::numbers::Numbers;
use super::reduce::{largest, sum};
use super::{INTEGER_FAILS, MISMATCHED, MISSHAPEN, ORDER, Operation, Reason};

/// The largest number of multiplications that is evaluated. Larger products are left to the
/// runtime.
const LIMIT: usize = 1 << 24;

/// Evaluates `MatMul`. Sums of floats are rounded once.
pub(crate) fn matmul(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let (a, b) = (operation.input(0)?, operation.input(1)?);
    // A vector is a row on the left, and a column on the right.
    let (mut left, mut right) = (a.shape().to_vec(), b.shape().to_vec());
    let mut shape = operation.shape.to_vec();
    if right.len() == 1 {
        right.push(1);
        shape.push(1);
    }
    if left.len() == 1 {
        left.insert(0, 1);
        shape.insert(shape.len().saturating_sub(1), 1);
    }
    let ([left_batch @ .., rows, depth], [right_batch @ .., same, columns]) =
        (left.as_slice(), right.as_slice())
    else {
        return Err("an operand is a scalar");
    };
    let batch = shape.len().checked_sub(2).map(|rank| &shape[..rank]).ok_or(MISSHAPEN)?;
    let count: usize = batch.iter().product();
    let work = [count, *rows, *depth, *columns].into_iter().try_fold(1, usize::checked_mul);
    if depth != same || work.is_none_or(|work| work > LIMIT) {
        return Err("the product is large");
    }
    let starts = |of: &[usize], size: usize| {
        let strides = broadcast_strides(of, batch)?;
        let starts = positions(batch, &strides, 0).into_iter().map(usize::try_from);
        let starts: Vec<usize> = starts.collect::<Result<_, _>>().map_err(|_| MISSHAPEN)?;
        Ok(starts.into_iter().map(|start| start * size).collect::<Vec<_>>())
    };
    let starts =
        starts(left_batch, rows * depth)?.into_iter().zip(starts(right_batch, same * columns)?);
    let places = starts.flat_map(|(left, right)| {
        let row = move |row| (0..*columns).map(move |column| (left + row * depth, right + column));
        (0..*rows).flat_map(row)
    });
    let terms =
        |(left, right): (usize, usize)| (0..*depth).map(move |k| (left + k, right + k * columns));
    let result = match (Numbers::new(a)?, Numbers::new(b)?) {
        (Numbers::Ints(a), Numbers::Ints(b)) => {
            let term = |(i, j): (usize, usize)| a.get(i)?.checked_mul(*b.get(j)?);
            let each = |place| terms(place).try_fold(0i128, |sum, at| sum.checked_add(term(at)?));
            Numbers::Ints(places.map(each).collect::<Option<_>>().ok_or(INTEGER_FAILS)?)
        }
        (Numbers::Floats(_), Numbers::Floats(_)) if !operation.may_round() => {
            return Err(ORDER);
        }
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            let limit = largest(operation.dtype)?;
            let term = |(i, j): (usize, usize)| Some(a.get(i)? * b.get(j)?);
            let each = |place| {
                let terms: Option<Vec<f64>> = terms(place).map(term).collect();
                sum(&terms.ok_or(MISSHAPEN)?, limit)
            };
            Numbers::Floats(places.map(each).collect::<Result<_, _>>()?)
        }
        _ => return Err(MISMATCHED),
    };
    result.into_tensor(operation)
}

/// Evaluates `Conv` without a bias, if its padding is given explicitly.
pub(crate) fn conv(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let (source, kernel) = (operation.input(0)?, operation.input(1)?);
    let node = operation.node;
    let is_plain = operation.optional(2).is_none() && node.string("auto_pad", "NOTSET") == "NOTSET";
    let ([_, channels, sizes @ ..], [_, depth, window @ ..]) = (source.shape(), kernel.shape())
    else {
        return Err("there are no images");
    };
    let [batch, filters, places @ ..] = operation.shape else { return Err("there are no images") };
    if !is_plain || !operation.may_round() || *depth == 0 {
        return Err(ORDER);
    }
    let ints = |name, default: isize| -> Result<Vec<isize>, Reason> {
        let given = node.ints(name).map(|all| all.iter().map(|v| isize::try_from(*v)).collect());
        let given: Option<Result<Vec<isize>, _>> = given;
        given.unwrap_or_else(|| Ok(vec![default; sizes.len()])).map_err(|_| MISSHAPEN)
    };
    let (steps, gaps, pads) = (ints("strides", 1)?, ints("dilations", 1)?, ints("pads", 0)?);
    let groups = channels / depth;
    let work = operation.shape.iter().chain(window).try_fold(*depth, |n, d| n.checked_mul(*d));
    if work.is_none_or(|work| work > LIMIT) {
        return Err("the product is large");
    }
    let (x, w) = (Numbers::new(source)?.floats()?, Numbers::new(kernel)?.floats()?);
    if x.iter().chain(&w).any(|v| !v.is_finite()) {
        return Err("zeros of the padding may meet infinity");
    }
    let limit = largest(operation.dtype)?;
    let (image, taps): (usize, usize) = (sizes.iter().product(), window.iter().product());
    let index = |mut flat: usize, shape: &[usize]| -> Vec<isize> {
        let along = |size: &usize| {
            let at = flat % size;
            flat /= size;
            at.cast_signed()
        };
        let mut index: Vec<isize> = shape.iter().rev().map(along).collect();
        index.reverse();
        index
    };
    let windows: Vec<Vec<isize>> = (0..taps).map(|tap| index(tap, window)).collect();
    let mut values = Vec::new();
    for (n, filter) in (0..*batch).flat_map(|n| (0..*filters).map(move |filter| (n, filter))) {
        let first = filter / (filters / groups).max(1) * depth;
        for place in 0..places.iter().product() {
            let place = index(place, places);
            let mut terms = Vec::new();
            for (tap, offsets) in windows.iter().enumerate() {
                let mut from = Some(0usize);
                for (axis, size) in sizes.iter().enumerate() {
                    let at = place[axis] * steps[axis] + offsets[axis] * gaps[axis] - pads[axis];
                    let at = usize::try_from(at).ok().filter(|at| at < size);
                    from = from.zip(at).map(|(from, at)| from * size + at);
                }
                let Some(from) = from else { continue };
                for channel in 0..*depth {
                    let a = x.get((n * channels + first + channel) * image + from);
                    let b = w.get((filter * depth + channel) * taps + tap);
                    terms.push(a.ok_or(MISSHAPEN)? * b.ok_or(MISSHAPEN)?);
                }
            }
            values.push(sum(&terms, limit)?);
        }
    }
    Numbers::Floats(values).into_tensor(operation)
}
