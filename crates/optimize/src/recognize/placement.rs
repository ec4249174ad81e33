//! Where the axes of a value lie among those of the result that is to be replaced.
//!
//! Operators broadcast: a mean of shape `[B]` may be put beside `[B, 4]` by a reshape, by reductions
//! that keep their axes, or by an expansion. What counts is which axis of the operand meets which
//! axis of the result. Axes of size one meet all, so it does not matter where they are.

use smallvec::SmallVec;
use tensor::Dim;

/// An axis of the result, or one of the two below.
type Axis = u8;

/// An axis of size one that was inserted.
const ONE: Axis = u8::MAX;
/// An axis that was reduced: it may be any.
const ANY: Axis = u8::MAX - 1;

/// For each axis of a value, which axis of the result it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placement(SmallVec<[Axis; 6]>);

/// As a copy of its bytes: a `SmallVec` clones its items one by one, and searches clone much.
impl Clone for Placement {
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Placement {
    /// The axes of the result itself; `None` if there are more than fit.
    pub(super) fn identity(rank: usize) -> Option<Self> {
        let rank = Axis::try_from(rank).ok().filter(|rank| *rank < ANY)?;
        Some(Self((0..rank).collect()))
    }

    /// That of a value whose axes may be any.
    pub(super) fn unknown(rank: usize) -> Self {
        Self(SmallVec::from_elem(ANY, rank))
    }

    /// That of an operand with `rank` axes of an elementwise operator.
    pub(super) fn operand(&self, rank: usize) -> Option<Self> {
        Some(Self(SmallVec::from_slice(self.0.get(self.0.len().checked_sub(rank)?..)?)))
    }

    /// That of a value with one more axis behind, which may be any.
    pub(super) fn with_axis(&self) -> Self {
        Self(self.0.iter().copied().chain([ANY]).collect())
    }

    /// For each axis of a value of the given shape, the axis of the result along which it changes.
    pub(super) fn axes(&self, shape: &[Dim]) -> Vec<Option<usize>> {
        let axes = self.0.iter().zip(shape);
        axes.map(|(axis, dim)| (*dim != Dim::Known(1) && *axis < ANY).then(|| usize::from(*axis)))
            .collect()
    }

    /// That of the operand of a reduction of `axes`.
    pub(super) fn reduced(&self, rank: usize, axes: &[usize], keep: bool) -> Option<Self> {
        let mut rest = self.0.iter();
        let mut axis = |i| {
            let reduced = axes.contains(&i);
            let here = if reduced && !keep { None } else { Some(*rest.next()?) };
            Some(if reduced { ANY } else { here.unwrap_or(ANY) })
        };
        let axes: Option<_> = (0..rank).map(&mut axis).collect();
        axes.filter(|_| rest.next().is_none()).map(Self)
    }

    /// That of an operand of shape `from` that is reshaped to `to` by adding and removing axes of
    /// size one only; `None` if more happens.
    pub(super) fn reshaped(&self, from: &[Dim], to: &[Dim]) -> Option<Self> {
        let one = Dim::Known(1);
        let mut axes = to.iter().zip(&self.0).filter(|(dim, _)| **dim != one);
        let mut place = |dim: &Dim| {
            if *dim == one {
                return Some(ONE);
            }
            let (to, axis) = axes.next()?;
            (to == dim).then_some(*axis)
        };
        let placed: Option<_> = from.iter().map(&mut place).collect();
        placed.filter(|_| axes.next().is_none()).map(Self)
    }

    /// What this and `other` say together of a value of the given shape, unless they disagree.
    pub(super) fn unified(&self, other: &Self, shape: &[Dim]) -> Option<Self> {
        let pairs = self.0.iter().zip(&other.0).zip(shape);
        let unified = pairs.map(|((a, b), dim)| match (*a, *b) {
            (a, b) if a == b => Some(a),
            (ANY | ONE, b) if *dim == Dim::Known(1) || *a == ANY => Some(b),
            (a, ANY) => Some(a),
            (a, _) => (*dim == Dim::Known(1)).then_some(a),
        });
        unified.collect::<Option<_>>().map(Self)
    }

    /// The one axis of the result along which a value of the given shape changes.
    pub(super) fn only_axis(&self, shape: &[Dim]) -> Option<usize> {
        let mut axes = self.0.iter().zip(shape).filter(|(_, dim)| **dim != Dim::Known(1));
        let (axis, _) = axes.next()?;
        (axes.next().is_none() && *axis < ANY).then(|| usize::from(*axis))
    }

    /// Whether the value lies in the result as it is: axis on axis, from the last one on.
    pub(super) fn is_aligned(&self, shape: &[Dim], rank: usize) -> bool {
        let offset = rank.saturating_sub(self.0.len());
        self.0.iter().zip(shape).enumerate().all(|(i, (axis, dim))| {
            *dim == Dim::Known(1) || *axis == ANY || usize::from(*axis) == i + offset
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sizes: &[i64]) -> Vec<Dim> {
        sizes.iter().map(|n| Dim::Known(*n)).collect()
    }

    #[test]
    fn a_mean_is_found_where_it_is_put_back() {
        let whole = Placement::identity(3).unwrap();
        let (mean, kept) = (shape(&[2, 4]), shape(&[2, 4, 1]));
        let kept_place = whole.operand(3).unwrap();
        let place = kept_place.reshaped(&mean, &kept).unwrap();
        assert_eq!(place.0.as_slice(), [0, 1]);
        let x = place.reduced(3, &[2], false).unwrap();
        assert_eq!(x.0.as_slice(), [0, 1, ANY]);
        assert_eq!(x.unified(&whole, &shape(&[2, 4, 8])), Some(whole.clone()));
        let other = place.reduced(3, &[0], false).unwrap();
        assert_eq!(other.unified(&whole, &shape(&[4, 4, 4])), None);
    }

    #[test]
    fn reshapes_that_move_elements_are_none() {
        let whole = Placement::identity(2).unwrap();
        assert_eq!(whole.reshaped(&shape(&[4, 2]), &shape(&[2, 4])), None);
        assert_eq!(whole.reshaped(&shape(&[8]), &shape(&[2, 4])), None);
        assert!(whole.reshaped(&shape(&[1, 2, 1, 4]), &shape(&[2, 4])).is_some());
    }

    #[test]
    fn axes_of_size_one_meet_all() {
        let whole = Placement::identity(2).unwrap();
        let other = Placement(SmallVec::from_slice(&[ONE, 1]));
        assert!(whole.unified(&other, &shape(&[1, 4])).is_some());
        assert!(whole.unified(&other, &shape(&[2, 4])).is_none());
        assert!(other.is_aligned(&shape(&[1, 4]), 2));
    }
}
