//! The placement of a value's axes among the axes of the result that is to be replaced.
//!
//! Operators broadcast: a mean of shape `[B]` may be aligned with `[B, 4]` by a reshape, by
//! reductions that keep their axes, or by an expansion. All that matters is the axis of the result
//! that each axis of the operand is aligned with. Unit axes align with every axis, so their
//! position does not matter.

use smallvec::SmallVec;
use tensor::Dim;

/// An axis of the result, or one of the two markers below.
type Axis = u8;

/// An inserted unit axis.
const ONE: Axis = u8::MAX;
/// A reduced axis, which may correspond to any axis.
const ANY: Axis = u8::MAX - 1;

/// The axis of the result that corresponds to each axis of a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Placement(SmallVec<[Axis; 6]>);

/// Copies the bytes. A `SmallVec` clones its items one by one, and searches clone placements often.
impl Clone for Placement {
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Placement {
    /// Returns the placement of the result itself, or `None` if it has too many axes.
    pub(super) fn identity(rank: usize) -> Option<Self> {
        let rank = Axis::try_from(rank).ok().filter(|rank| *rank < ANY)?;
        Some(Self((0..rank).collect()))
    }

    /// Returns the placement of a value whose axes may correspond to any axes.
    pub(super) fn unknown(rank: usize) -> Self {
        Self(SmallVec::from_elem(ANY, rank))
    }

    /// Returns the placement of an operand with `rank` axes of an elementwise operator.
    pub(super) fn operand(&self, rank: usize) -> Option<Self> {
        Some(Self(SmallVec::from_slice(self.0.get(self.0.len().checked_sub(rank)?..)?)))
    }

    /// Returns the placement of a value with an additional last axis, which may correspond to any
    /// axis.
    pub(super) fn with_axis(&self) -> Self {
        Self(self.0.iter().copied().chain([ANY]).collect())
    }

    /// Returns, for each axis of a value of the given shape, the axis of the result along which it
    /// varies.
    pub(super) fn axes(&self, shape: &[Dim]) -> Vec<Option<usize>> {
        let axes = self.0.iter().zip(shape);
        axes.map(|(axis, dim)| (*dim != Dim::Known(1) && *axis < ANY).then(|| usize::from(*axis)))
            .collect()
    }

    /// Returns the placement of the operand of a reduction over `axes`.
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

    /// Returns the placement of an operand of shape `from` that is reshaped to `to` by adding and
    /// removing unit axes, or `None` for other reshapes.
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

    /// Combines two placements of a value of the given shape. Returns `None` if they conflict.
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

    /// Returns the only axis of the result along which a value of the given shape varies.
    pub(super) fn only_axis(&self, shape: &[Dim]) -> Option<usize> {
        let mut axes = self.0.iter().zip(shape).filter(|(_, dim)| **dim != Dim::Known(1));
        let (axis, _) = axes.next()?;
        (axes.next().is_none() && *axis < ANY).then(|| usize::from(*axis))
    }

    /// Returns `true` if the axes of the value align with the last axes of the result.
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
    fn a_restored_mean_has_the_placement_of_its_operand() {
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
    fn only_axes_of_the_result_are_named() {
        for (axes, sizes, expected) in [
            ([0, 1, 2], [1, 4, 1], Some(1)),
            ([0, 1, 2], [2, 4, 1], None),
            ([0, 1, 2], [1, 1, 1], None),
            ([ANY, 1, 2], [4, 1, 1], None),
            ([ONE, 1, 2], [4, 1, 1], None),
        ] {
            let place = Placement(SmallVec::from_slice(&axes));
            assert_eq!(place.only_axis(&shape(&sizes)), expected, "{axes:?} {sizes:?}");
        }
    }

    #[test]
    fn only_reshapes_of_unit_axes_have_a_placement() {
        let whole = Placement::identity(2).unwrap();
        assert_eq!(whole.reshaped(&shape(&[4, 2]), &shape(&[2, 4])), None);
        assert_eq!(whole.reshaped(&shape(&[8]), &shape(&[2, 4])), None);
        assert!(whole.reshaped(&shape(&[1, 2, 1, 4]), &shape(&[2, 4])).is_some());
    }

    #[test]
    fn unit_axes_align_with_every_axis() {
        let whole = Placement::identity(2).unwrap();
        let other = Placement(SmallVec::from_slice(&[ONE, 1]));
        assert!(whole.unified(&other, &shape(&[1, 4])).is_some());
        assert!(whole.unified(&other, &shape(&[2, 4])).is_none());
        assert_eq!(other.unified(&whole, &shape(&[1, 4])), Some(whole.clone()));
        assert!(other.unified(&whole, &shape(&[2, 4])).is_none());
        assert!(other.is_aligned(&shape(&[1, 4]), 2));
    }

    #[test]
    fn markers_are_no_axes() {
        assert!(Placement::identity(usize::from(ANY) - 1).is_some());
        assert!(Placement::identity(usize::from(ANY)).is_none());
        let place = Placement(SmallVec::from_slice(&[0, ANY, ONE, 3]));
        assert_eq!(place.axes(&shape(&[2, 2, 1, 2])), [Some(0), None, None, Some(3)]);
    }
}
