//! `Slice`.

use tensor::{Dim, Type};

use super::call::{Axes, Call, Dims, Ints};
use crate::Result;
use tensor::bounds::{at_least, ceil_div, max, min, non_negative};

/// The least magnitude of a number that means an end of the axis, as the specification recommends.
const FAR: i64 = i32::MAX as i64;
const NEGATIVE_FAR: i64 = -FAR;

/// The axes of a `Slice`, with a start, an end and a step for each.
pub(super) struct Slices {
    pub(super) axes: Axes,
    pub(super) starts: Dims,
    pub(super) ends: Dims,
    pub(super) steps: Ints,
}

impl Slices {
    pub(super) fn read(call: &Call<'_>) -> Result<Self> {
        let rank = call.ty(0)?.rank();
        let (starts, ends) = (call.vector(1)?, call.vector(2)?);
        let axes = match call.optional(3) {
            Some(_) => call.axes(&call.numbers(3)?, rank)?,
            None if starts.len() <= rank => (0..starts.len()).collect(),
            None => return Err(call.error(format!("{} starts, rank {rank}", starts.len()))),
        };
        let steps = match call.optional(4) {
            Some(_) => call.numbers(4)?,
            None => Ints::from_elem(1, axes.len()),
        };
        let [a, b, c, d] = [axes.len(), starts.len(), ends.len(), steps.len()];
        if [b, c, d].iter().any(|len| *len != a) {
            let reason = format!("{a} axes, {b} starts, {c} ends and {d} steps");
            return Err(call.error(reason));
        }
        if steps.contains(&0) {
            return Err(call.error("a step is 0"));
        }
        // Runtimes misread a far end on the wrong side as one on the right side.
        let is_wrong = |(end, step): (&Dim, &i64)| match end {
            Dim::Known(FAR..) => *step < 0,
            Dim::Known(..=NEGATIVE_FAR) => *step > 0,
            _ => false,
        };
        if ends.iter().zip(&steps).any(is_wrong) {
            return Err(call.error("an end is far past the start"));
        }
        Ok(Self { axes, starts, ends, steps })
    }
}

pub(crate) fn slice(call: &Call<'_>) -> Result<Vec<Type>> {
    let mut ty = call.ty(0)?.clone();
    let slices = Slices::read(call)?;
    for (i, &axis) in slices.axes.iter().enumerate() {
        let (start, end, step) = (&slices.starts[i], &slices.ends[i], slices.steps[i]);
        ty.shape[axis] = sliced(&ty.shape[axis], start, end, step)
            .map_err(|at| call.error(format!("cannot tell whether the index {at} is negative")))?;
    }
    Ok(vec![ty])
}

/// Returns the number of elements that a `Slice` takes from an axis. Fails with the index if its
/// sign is unknown.
pub fn sliced(size: &Dim, start: &Dim, end: &Dim, step: i64) -> std::result::Result<Dim, Dim> {
    match (size, start, end) {
        (Dim::Known(size), Dim::Known(start), Dim::Known(end)) => {
            let (first, last) = clamp(*size, *start, *end, step);
            Ok(Dim::Known(count(first, last, step)))
        }
        _ => symbolic(size, start, end, step),
    }
}

/// Returns the first index that is taken and the first that is not, for an axis of known size.
pub(super) fn clamp(size: i64, start: i64, end: i64, step: i64) -> (i64, i64) {
    let wrap = |n: i64| if n < 0 { n.saturating_add(size) } else { n };
    let (start, end) = (wrap(start), wrap(end));
    match step > 0 {
        true => (start.clamp(0, size), end.clamp(0, size)),
        // An empty axis has no element to start from.
        false if size == 0 => (-1, -1),
        false => (start.clamp(0, size - 1), end.clamp(-1, size - 1)),
    }
}

fn count(first: i64, last: i64, step: i64) -> i64 {
    let distance = if step > 0 { last - first } else { first - last };
    let step = i64::try_from(step.unsigned_abs()).unwrap_or(i64::MAX);
    if distance <= 0 { 0 } else { (distance - 1) / step + 1 }
}

fn symbolic(size: &Dim, start: &Dim, end: &Dim, step: i64) -> std::result::Result<Dim, Dim> {
    let one = Dim::Known(1);
    if step > 0 {
        // A start past the axis or an end before it leaves nothing, clamped or not. Not clamping
        // keeps equal sizes recognisable.
        let start = match start {
            Dim::Known(n @ 0..FAR) => Dim::Known(*n),
            start => place(size, start, &Dim::Known(0), size)?,
        };
        let end = match end {
            Dim::Known(n @ NEGATIVE_FAR..0) if *n != NEGATIVE_FAR => size.clone() + Dim::Known(*n),
            end => place(size, end, &Dim::Known(0), size)?,
        };
        return Ok(non_negative(&ceil_div(end - start, step)));
    }
    let last = size.clone() - one;
    let start = match start {
        // The index of the last element, even of an empty axis.
        Dim::Known(-1) => last.clone(),
        start => place(size, start, &Dim::Known(0), &last)?,
    };
    let end = place(size, end, &Dim::Known(-1), &last)?;
    Ok(non_negative(&ceil_div(start - end, step.saturating_neg())))
}

/// Returns the position of the index `at` in an axis, clamped to `low..=high`. Fails with `at` if
/// its sign is unknown.
fn place(size: &Dim, at: &Dim, low: &Dim, high: &Dim) -> std::result::Result<Dim, Dim> {
    match at {
        Dim::Known(FAR..) => Ok(high.clone()),
        Dim::Known(..=NEGATIVE_FAR) => Ok(low.clone()),
        at if at_least(at, 0) => Ok(min(high, at)),
        at if at_least(&-at.clone(), 1) => Ok(max(&(size.clone() + at.clone()), low)),
        at => Err(at.clone()),
    }
}
