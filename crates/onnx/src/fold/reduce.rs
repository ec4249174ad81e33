//! Operators that combine elements along axes.

use tensor::{DType, Tensor};

use super::elementwise::{larger, smaller};
use super::layout::{positions, strides};
use super::numbers::Numbers;
use super::{
    Exactness, INEXACT, INTEGER_FAILS, MISSHAPEN, NOT_COMPUTED, ORDER, Operation, Reason, axis,
};

/// The positions of the elements that are combined: the first of each group, and the offsets of all
/// elements of a group from its first.
struct Groups {
    first: Vec<isize>,
    others: Vec<isize>,
}

impl Groups {
    fn along(shape: &[usize], axes: &[usize]) -> Self {
        let strides = strides(shape);
        let part = |is_reduced: bool| {
            let axes = (0..shape.len()).filter(|i| axes.contains(i) == is_reduced);
            let (sizes, steps): (Vec<_>, Vec<_>) = axes.map(|i| (shape[i], strides[i])).unzip();
            positions(&sizes, &steps, 0)
        };
        Self { first: part(false), others: part(true) }
    }

    /// Returns the elements of each group.
    fn of<'a, T: Copy>(
        &'a self,
        values: &'a [T],
    ) -> impl Iterator<Item = Result<Vec<T>, Reason>> + 'a {
        self.first.iter().map(move |first| {
            let at = |other: &isize| values.get(usize::try_from(first + other).ok()?).copied();
            self.others.iter().map(|other| at(other).ok_or(MISSHAPEN)).collect()
        })
    }
}

const EMPTY: Reason = "there is nothing to combine";
const OVERFLOW: Reason = "a part of the result may be out of range";

macro_rules! reductions {
    ($($name:ident, $exactness:ident => $ints:expr, $floats:expr;)*) => {
        $(pub(crate) fn $name(operation: &Operation<'_>) -> Result<Tensor, Reason> {
            reduce(operation, Exactness::$exactness, $ints, $floats)
        })*
    };
}

// On integers, then on floats.
reductions! {
    reduce_l1, Rounded => |_| None, |values, limit| sum(&mapped(values, f64::abs), limit);
    reduce_l2, Rounded => |_| None, |values, limit| Ok(sum(&mapped(values, square), limit)?.sqrt());
    reduce_max, EachBit => |values| values.iter().max().copied(), |values, _| extreme(values, larger);
    reduce_mean, Rounded => |_| None, mean;
    reduce_min, EachBit => |values| values.iter().min().copied(), |values, _| extreme(values, smaller);
    reduce_prod, Rounded => |values| values.iter().try_fold(1, |a: i128, b| a.checked_mul(*b)), product;
    reduce_sum, Rounded => |values| values.iter().try_fold(0, |a: i128, b| a.checked_add(*b)), sum;
    reduce_sum_square, Rounded => |_| None, |values, limit| sum(&mapped(values, square), limit);
}

/// Combines the elements along axes. `floats` gets the largest number of the type, too, and has an
/// exactness.
fn reduce(
    operation: &Operation<'_>,
    exactness: Exactness,
    ints: fn(&[i128]) -> Option<i128>,
    floats: fn(&[f64], f64) -> Result<f64, Reason>,
) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let rank = source.shape().len();
    let axes = operation.axes(1, rank)?.unwrap_or_default();
    if axes.is_empty() && operation.node.int("noop_with_empty_axes", 0) != 0 {
        return Err("nothing is combined");
    }
    let axes = if axes.is_empty() { (0..rank).collect() } else { axes };
    let groups = Groups::along(source.shape(), &axes);
    let result = match Numbers::new(source)? {
        Numbers::Ints(values) => {
            let each = |group: Result<Vec<_>, _>| ints(&group?).ok_or(INTEGER_FAILS);
            Numbers::Ints(groups.of(&values).map(each).collect::<Result<_, _>>()?)
        }
        Numbers::Floats(_) if exactness == Exactness::Rounded && !operation.may_round() => {
            return Err(ORDER);
        }
        Numbers::Floats(values) => {
            let limit = largest(operation.dtype)?;
            let each = |group: Result<Vec<_>, _>| floats(&group?, limit);
            Numbers::Floats(groups.of(&values).map(each).collect::<Result<_, _>>()?)
        }
    };
    result.into_tensor(operation)
}

fn mapped(values: &[f64], function: fn(f64) -> f64) -> Vec<f64> {
    values.iter().copied().map(function).collect()
}

fn square(value: f64) -> f64 {
    value * value
}

#[expect(clippy::cast_precision_loss, reason = "the number of elements is small")]
fn mean(values: &[f64], limit: f64) -> Result<f64, Reason> {
    Ok(sum(values, limit)? / values.len() as f64)
}

/// Returns the largest or smallest element.
fn extreme(values: &[f64], better: fn(f64, f64) -> Option<f64>) -> Result<f64, Reason> {
    let (first, rest) = values.split_first().ok_or(EMPTY)?;
    let result = rest.iter().try_fold(*first, |a, b| better(a, *b));
    result.ok_or(INEXACT)
}

/// Returns the largest number of a type.
pub(super) fn largest(dtype: DType) -> Result<f64, Reason> {
    match dtype {
        DType::F16 => Ok(65504.0),
        DType::BF16 | DType::F32 => Ok(f64::from(f32::MAX)),
        DType::F64 => Ok(f64::MAX),
        _ => Err(NOT_COMPUTED),
    }
}

/// Returns a sum, as if rounded once. Fails if it may overflow in some order of the additions.
pub(super) fn sum(values: &[f64], limit: f64) -> Result<f64, Reason> {
    let finite = values.iter().filter(|v| v.is_finite());
    if finite.map(|v| v.abs()).sum::<f64>() > limit {
        return Err(OVERFLOW);
    }
    if values.iter().any(|v| !v.is_finite()) {
        return Ok(values.iter().sum());
    }
    // The rounding errors of the additions are summed as well.
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    Ok(sum + lost)
}

/// Returns a product. Fails if it may overflow or lose digits in some order of the multiplications,
/// because zero times infinity is not zero.
fn product(values: &[f64], limit: f64) -> Result<f64, Reason> {
    let sizes = || values.iter().map(|v| v.abs()).filter(|v| *v != 0.0);
    let (most, least) = (sizes().map(|v| v.max(1.0)), sizes().map(|v| v.min(1.0)));
    let is_in_range = most.product::<f64>() <= limit && least.product::<f64>() >= limit.recip();
    if !is_in_range {
        return Err(OVERFLOW);
    }
    Ok(values.iter().product())
}

/// Evaluates `ArgMax` and `ArgMin`. Of equal elements, the first is chosen, or the last if an
/// attribute asks for it.
pub(crate) fn arg(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let along = operation.axis(0, source.shape().len())?;
    let groups = Groups::along(source.shape(), &[along]);
    let is_max = operation.node.is("ArgMax");
    let is_last = operation.node.int("select_last_index", 0) != 0;
    let places = match Numbers::ordered(source)? {
        Numbers::Ints(values) => best_places(&groups, &values, is_max, is_last)?,
        Numbers::Floats(values) => best_places(&groups, &values, is_max, is_last)?,
    };
    Numbers::Ints(places).into_tensor(operation)
}

fn best_places<T: Copy + PartialOrd>(
    groups: &Groups,
    values: &[T],
    is_max: bool,
    is_last: bool,
) -> Result<Vec<i128>, Reason> {
    let place = |group: Result<Vec<T>, Reason>| {
        let group = group?;
        let (mut best, mut place) = (*group.first().ok_or(EMPTY)?, 0i128);
        for (at, value) in (0i128..).zip(group) {
            let is_better = if is_max { value > best } else { value < best };
            if is_better || (is_last && value == best) {
                (best, place) = (value, at);
            }
        }
        Ok(place)
    };
    groups.of(values).map(place).collect()
}

/// Evaluates `CumSum`, from either end.
pub(crate) fn cumulative_sum(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let [along] = *operation.ints(1)? else { return Err("there are several axes") };
    let groups = Groups::along(source.shape(), &[axis(along, source.shape().len())?]);
    let is_set = |name| operation.node.int(name, 0) != 0;
    let (is_exclusive, is_reversed) = (is_set("exclusive"), is_set("reverse"));
    let count = source.len();
    let result = match Numbers::new(source)? {
        Numbers::Ints(values) => {
            let mut sums = vec![0; count];
            accumulate(&groups, &values, &mut sums, (is_exclusive, is_reversed))?;
            Numbers::Ints(sums)
        }
        Numbers::Floats(_) if !operation.may_round() => return Err(ORDER),
        Numbers::Floats(values) => {
            let magnitude: f64 = values.iter().map(|v| v.abs()).sum();
            if magnitude > largest(operation.dtype)? {
                return Err(OVERFLOW);
            }
            let mut sums = vec![0.0; count];
            accumulate(&groups, &values, &mut sums, (is_exclusive, is_reversed))?;
            Numbers::Floats(sums)
        }
    };
    result.into_tensor(operation)
}

fn accumulate<T: Copy + Default + std::ops::Add<Output = T>>(
    groups: &Groups,
    values: &[T],
    sums: &mut [T],
    (is_exclusive, is_reversed): (bool, bool),
) -> Result<(), Reason> {
    let order: Vec<isize> = match is_reversed {
        true => groups.others.iter().rev().copied().collect(),
        false => groups.others.clone(),
    };
    for first in &groups.first {
        let mut sum = T::default();
        for other in &order {
            let at = usize::try_from(first + other).map_err(|_| MISSHAPEN)?;
            let (value, place) = values.get(at).zip(sums.get_mut(at)).ok_or(MISSHAPEN)?;
            let next = sum + *value;
            *place = if is_exclusive { sum } else { next };
            sum = next;
        }
    }
    Ok(())
}

/// Evaluates one of the results of `TopK`: the elements or their indices. Equal elements keep their
/// order.
pub(crate) fn top_k(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let source = operation.input(0)?;
    let shape = source.shape();
    let along = operation.axis(-1, shape.len())?;
    let [count] = *operation.ints(1)? else { return Err("there are several sizes") };
    let count = usize::try_from(count).map_err(|_| "a size is negative")?;
    if count > shape[along] {
        return Err("there are not enough elements");
    }
    let groups = Groups::along(shape, &[along]);
    let is_largest = operation.node.int("largest", 1) != 0;
    let order = match Numbers::ordered(source)? {
        Numbers::Ints(values) => sorted(&groups, &values, is_largest)?,
        Numbers::Floats(values) => sorted(&groups, &values, is_largest)?,
    };
    // The groups are ordered by the axes before the sorted one, then by the axes after it.
    let inner: usize = shape[along + 1..].iter().product();
    let mut chosen = Vec::new();
    for outer in order.chunks(inner.max(1)) {
        for at in 0..count {
            let places = outer.iter().map(|group| group.get(at).copied());
            chosen.extend(places.collect::<Option<Vec<_>>>().ok_or(MISSHAPEN)?);
        }
    }
    if operation.result == 1 {
        let places = chosen.iter().map(|(_, place)| *place).collect();
        return Numbers::Ints(places).into_tensor(operation);
    }
    let positions = chosen.iter().map(|(position, _)| *position);
    super::layout::picked(operation, source, positions)
}

/// Sorts each group. Returns the position of each element in the tensor and its index in the group.
fn sorted<T: Copy + PartialOrd>(
    groups: &Groups,
    values: &[T],
    is_largest: bool,
) -> Result<Vec<Vec<(isize, i128)>>, Reason> {
    let each = |(first, group): (&isize, Result<Vec<T>, Reason>)| {
        let mut order: Vec<_> = group?.into_iter().zip(&groups.others).zip(0i128..).collect();
        order.sort_by(|((a, _), _), ((b, _), _)| {
            let order = a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
            if is_largest { order.reverse() } else { order }
        });
        Ok(order.into_iter().map(|((_, other), place)| (first + other, place)).collect())
    };
    groups.first.iter().zip(groups.of(values)).map(each).collect()
}
