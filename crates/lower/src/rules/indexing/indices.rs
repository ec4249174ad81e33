//! Start indices of `gather` and `scatter`: one vector per window, in the last axis.

use std::sync::Arc;

use onnx::facts::Progression;
use onnx::{Assumption, Attrs, ValueId, attrs};
use tensor::bounds::at_least;
use tensor::{DType, Dim, Tensor};

use crate::{Context, Result, RuleError};

/// The maximum number of indices in a constant. More are computed, or handled one axis at a time.
const SMALL: i64 = 4096;

/// The treatment of windows that are out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The window is clamped into bounds.
    Clip,
    /// The window is read as the fill value, or not written.
    FillOrDrop,
    /// All windows are in bounds.
    Inside,
}

impl Mode {
    /// Reads the mode of the equation. If the equation promises that all windows are in bounds, the
    /// mode is `broken`, the behaviour of XLA if the promise is broken.
    pub(crate) fn read(cx: &Context<'_>, broken: Mode) -> Result<Self> {
        let name: Arc<str> = cx.param("mode")?;
        match &*name {
            "CLIP" => Ok(Mode::Clip),
            "FILL_OR_DROP" => Ok(Mode::FillOrDrop),
            "PROMISE_IN_BOUNDS" => Ok(broken),
            other => {
                Err(RuleError::unsupported(format!("the index mode {other} is not supported")))
            }
        }
    }
}

/// The starts of windows: vectors of 32-bit or 64-bit integers that are all in bounds, and a mask
/// of the windows that were in bounds originally. The mask is `None` if all were, or if it is not
/// needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starts {
    pub(crate) value: ValueId,
    pub(crate) inside: Option<ValueId>,
}

impl Starts {
    /// Brings the vectors of `indices` into `0..=limits`.
    pub(crate) fn new(
        cx: &mut Context<'_>,
        indices: ValueId,
        limits: &[Dim],
        mode: Mode,
    ) -> Result<Self> {
        if let Some(known) = cx.facts().constant(indices)
            && let Some(numbers) = known.to_i64s()
            && is_inside(&numbers, limits)
            && let Ok(tensor) = Tensor::i64s(&numbers).reshaped(known.shape())
        {
            return Ok(Self { value: cx.constant(tensor), inside: None });
        }
        if limits.is_empty() {
            let value = comparable(cx, indices, &[])?;
            return Ok(Self { value, inside: None });
        }
        if let Some(parts) = cx.facts().parts_of_vectors(indices).filter(|parts| parts.len() > 1) {
            return Self::of_parts(cx, &parts, limits, mode);
        }
        let given = comparable(cx, indices, limits)?;
        let value = if mode == Mode::Inside { given } else { inside(cx, given, limits)? };
        if mode == Mode::Clip || value == given {
            return Ok(Self { value, inside: None });
        }
        let same = cx.op("Equal", &[given, value], Attrs::new())?;
        let axis = cx.rank(same) as i64 - 1;
        let inside = if limits.len() == 1 {
            cx.squeeze(same, &[axis])?
        } else {
            let (numbers, axes) = (cx.cast(same, DType::U8)?, cx.i64s(&[axis]));
            let all = cx.op("ReduceMin", &[numbers, axes], attrs! { keepdims: false })?;
            cx.cast(all, DType::Bool)?
        };
        Ok(Self { value, inside: Some(inside) })
    }

    /// Creates the starts like [`Self::new`], for vectors that are concatenated from their
    /// elements. Elements that count within their axis, and known ones, are in bounds.
    fn of_parts(
        cx: &mut Context<'_>,
        parts: &[ValueId],
        limits: &[Dim],
        mode: Mode,
    ) -> Result<Self> {
        let mut starts = Vec::with_capacity(parts.len());
        let mut insides: Option<ValueId> = None;
        for (part, limit) in parts.iter().zip(limits) {
            let limit = std::slice::from_ref(limit);
            let start = match is_counted_within(cx, *part, &limit[0]) {
                true => Self { value: *part, inside: None },
                false => Self::new(cx, *part, limit, mode)?,
            };
            insides = match (insides, start.inside) {
                (Some(a), Some(b)) => Some(cx.op("And", &[a, b], Attrs::new())?),
                (a, b) => a.or(b),
            };
            starts.push(start.value);
        }
        let is_narrow = starts.iter().all(|start| cx.dtype(*start) == DType::I32);
        let dtype = if is_narrow { DType::I32 } else { DType::I64 };
        for start in &mut starts {
            *start = cx.cast(*start, dtype)?;
        }
        let value = cx.op("Concat", &starts, attrs! { axis: -1 })?;
        Ok(Self { value, inside: insides })
    }
}

/// Returns `true` if the numbers in `part` count within `0..=limit`.
fn is_counted_within(cx: &Context<'_>, part: ValueId, limit: &Dim) -> bool {
    let found = cx.facts().progressions(part).and_then(|found| found.into_iter().next().flatten());
    found.is_some_and(|found| is_within(&found, cx.shape(part), limit))
}

/// Returns `true` if a progression along axes of the given sizes is within `0..=limit`, for all
/// values of the dimension variables.
pub(crate) fn is_within(places: &Progression, sizes: &[Dim], limit: &Dim) -> bool {
    let (mut low, mut high) = (places.first.clone(), places.first.clone());
    for (&step, size) in places.steps.iter().zip(sizes) {
        let end = if step < 0 { &mut low } else { &mut high };
        *end = end.clone() + Dim::Known(step) * (size.clone() - Dim::Known(1));
    }
    at_least(&low, 0) && at_least(&(limit.clone() - high), 0)
}

fn is_inside(values: &[i64], limits: &[Dim]) -> bool {
    let limits = limits.iter().cycle().map(Dim::as_known);
    values.iter().zip(limits).all(|(v, limit)| limit.is_some_and(|n| (0..=n).contains(v)))
}

/// Casts `value` to a type that holds it and the limits. Narrow types stay narrow, because they are
/// read and compared fastest.
#[track_caller]
pub(crate) fn comparable(cx: &mut Context<'_>, value: ValueId, limits: &[Dim]) -> Result<ValueId> {
    let dtype = cx.dtype(value);
    let holds = dtype == DType::I32 || dtype.bits() < 32;
    let small = |limit: &Dim| limit.as_known().is_some_and(|n| i32::try_from(n).is_ok());
    let narrow = holds && limits.iter().all(small);
    Ok(cx.cast(value, if narrow { DType::I32 } else { DType::I64 })?)
}

/// Clamps the positions in `value` to `0..=limits`, unless the user guarantees that they are in
/// range.
#[track_caller]
pub(crate) fn inside(cx: &mut Context<'_>, value: ValueId, limits: &[Dim]) -> Result<ValueId> {
    match cx.assumes(Assumption::IndicesInRange) {
        true => Ok(value),
        false => clamp(cx, value, limits),
    }
}

/// Clamps `value` to `0..=limits`, with one limit per element of the last axis.
#[track_caller]
pub(crate) fn clamp(cx: &mut Context<'_>, value: ValueId, limits: &[Dim]) -> Result<ValueId> {
    let dtype = cx.dtype(value);
    let zero = cx.scalar(dtype, 0.0)?;
    if let Some((Dim::Known(first), rest)) = limits.split_first()
        && rest.iter().all(|limit| *limit == Dim::Known(*first))
    {
        let limit = Tensor::int_scalar(dtype, i128::from(*first));
        let limit = limit.ok_or_else(|| RuleError::Internal("an impossible limit".to_owned()))?;
        let limit = cx.constant(limit);
        return Ok(cx.op("Clip", &[value, zero, limit], Attrs::new())?);
    }
    let limits = cx.dims(limits)?;
    let limits = cx.cast(limits, dtype)?;
    let low = cx.op("Max", &[value, zero], Attrs::new())?;
    Ok(cx.op("Min", &[low, limits], Attrs::new())?)
}

/// Returns the range from zero to `count`, exclusive.
#[track_caller]
pub(crate) fn count(cx: &mut Context<'_>, count: &Dim) -> Result<ValueId> {
    match count.as_known() {
        Some(known) if known <= SMALL => Ok(cx.i64s(&(0..known).collect::<Vec<_>>())),
        _ => range(cx, count),
    }
}

/// Returns `count` equally spaced numbers.
#[track_caller]
pub(crate) fn steps(
    cx: &mut Context<'_>,
    first: &Dim,
    count: &Dim,
    distance: &Dim,
) -> Result<ValueId> {
    if let (Some(first), Some(count), Some(distance)) =
        (first.as_known(), count.as_known(), distance.as_known())
    {
        return Ok(cx.i64s(&(0..count).map(|i| first + i * distance).collect::<Vec<_>>()));
    }
    let (numbers, distance) = (self::count(cx, count)?, cx.dims(std::slice::from_ref(distance))?);
    let numbers = cx.op("Mul", &[numbers, distance], Attrs::new())?;
    let first = cx.dims(std::slice::from_ref(first))?;
    Ok(cx.op("Add", &[numbers, first], Attrs::new())?)
}

/// Returns the axes of `counts` that `numbers` change along, with the step of each, if the steps
/// are constant.
pub(crate) fn steps_of(numbers: &[i64], counts: &[i64]) -> Option<Vec<(usize, i64)>> {
    let first = *numbers.first()?;
    let mut steps = Vec::new();
    let mut stride = 1;
    for (axis, &count) in counts.iter().enumerate().rev() {
        if count > 1 && *numbers.get(stride)? != first {
            steps.push((axis, stride, count, numbers[stride].checked_sub(first)?));
        }
        stride *= usize::try_from(count).ok()?;
    }
    let expected = |i: usize| {
        steps.iter().try_fold(first, |number, (_, stride, count, step)| {
            let at = i64::try_from(i / stride).ok()? % count;
            number.checked_add(at.checked_mul(*step)?)
        })
    };
    let regular = numbers.iter().enumerate().all(|(i, number)| expected(i) == Some(*number));
    regular.then(|| steps.iter().map(|(axis, _, _, step)| (*axis, *step)).collect())
}

/// Returns `true` if a window of the given sizes has few positions in the axes before `last`. In
/// that case all of these axes are indexed, including those that the window fills, because moving
/// them away would copy the operand twice. A runtime that may write into the operand, as into a
/// cache, then writes only the window.
pub(crate) fn has_few(sizes: &[Dim], last: usize) -> bool {
    count_of(last as i64, &sizes[..last]).is_some_and(|count| count <= 4096)
}

/// Returns `true` if each of these positions covers many elements, so that the number of positions
/// does not matter.
pub(crate) fn stand_for_many(sizes: &[Dim], last: usize) -> bool {
    count_of(1, &sizes[last..]).is_none_or(|count| count >= 8)
}

fn count_of(times: i64, sizes: &[Dim]) -> Option<i64> {
    sizes.iter().try_fold(times, |count, size| count.checked_mul(size.as_known()?))
}

/// Returns the range from zero to `count`, exclusive, computed when the model runs.
#[track_caller]
pub(crate) fn range(cx: &mut Context<'_>, count: &Dim) -> Result<ValueId> {
    let (start, step) = (cx.scalar(DType::I64, 0.0)?, cx.scalar(DType::I64, 1.0)?);
    let limit = cx.size(count)?;
    Ok(cx.op("Range", &[start, limit, step], Attrs::new())?)
}

/// Expands `starts` (…, n) to (…, sizes…, n): each vector becomes the positions of all elements of
/// its window. `places` maps each axis of the window to the element of the vectors that moves along
/// it.
#[track_caller]
pub(crate) fn windows(
    cx: &mut Context<'_>,
    starts: ValueId,
    sizes: &[Dim],
    places: &[usize],
) -> Result<ValueId> {
    let last = cx.rank(starts) - 1;
    let inserted: Vec<i64> = (0..sizes.len()).map(|i| (last + i) as i64).collect();
    let width = cx.shape(starts)[last].as_known().and_then(|n| usize::try_from(n).ok());
    let width =
        width.ok_or_else(|| RuleError::Internal("the index vectors have no length".to_owned()))?;
    let mut moved = cx.unsqueeze(starts, &inserted)?;
    if sizes.iter().all(|size| *size == Dim::Known(1)) {
        return Ok(moved);
    }
    let known = Dim::all_known(sizes);
    if let Some(known) = known
        && known.iter().try_fold(width as i64, |n, size| n.checked_mul(*size)) <= Some(SMALL)
    {
        let offsets = Tensor::i64s(&grid(&known, places, width));
        let offsets = cx.constant(offsets);
        let offsets = cx.reshape(offsets, &[sizes, &[Dim::from(width)]].concat())?;
        return Ok(cx.op("Add", &[moved, offsets], Attrs::new())?);
    }
    for (i, size) in sizes.iter().enumerate().filter(|(_, size)| **size != Dim::Known(1)) {
        let mut shape = vec![Dim::Known(1); sizes.len() - i + 1];
        shape[0] = size.clone();
        let offsets = count(cx, size)?;
        let mut offsets = cx.reshape(offsets, &shape)?;
        if width > 1 {
            let unit: Vec<i64> = (0..width).map(|j| i64::from(j == places[i])).collect();
            let unit = cx.i64s(&unit);
            offsets = cx.op("Mul", &[offsets, unit], Attrs::new())?;
        }
        moved = cx.op("Add", &[moved, offsets], Attrs::new())?;
    }
    Ok(moved)
}

/// Returns, for every position in a box, a vector that holds the position at the indices `places`.
fn grid(sizes: &[i64], places: &[usize], width: usize) -> Vec<i64> {
    let axes = sizes.iter().zip(places);
    axes.fold(vec![vec![0; width]], |all, (&size, &place)| {
        let along = |vector: &Vec<i64>| {
            let vector = vector.clone();
            (0..size).map(move |i| {
                let mut vector = vector.clone();
                vector[place] = i;
                vector
            })
        };
        all.iter().flat_map(along).collect()
    })
    .concat()
}
