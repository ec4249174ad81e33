//! Slices of axes. ONNX counts positions from either end of an axis, so most slices need no
//! arithmetic on its size.

use onnx::{Attrs, ValueId, fold};
use tensor::bounds::at_least;
use tensor::{Atom, Dim, DimOp};

use super::Context;
use crate::{Result, RuleError};

impl Context<'_> {
    /// Slices `value` along each of `axes`, from `start` to `end` by `step`.
    #[track_caller]
    pub fn slice(
        &mut self,
        value: ValueId,
        axes: &[i64],
        starts: &[Dim],
        ends: &[Dim],
        steps: &[i64],
    ) -> Result<ValueId> {
        if axes.is_empty() {
            return Ok(value);
        }
        let (mut from, mut to) = (starts.to_vec(), ends.to_vec());
        for (i, &axis) in axes.iter().enumerate() {
            let axis = fold::axis(axis, self.rank(value));
            let axis = axis.map_err(|reason| RuleError::Internal(reason.to_owned()))?;
            let size = &self.shape(value)[axis];
            (from[i], to[i]) = written(&starts[i], &ends[i], steps[i], size);
        }
        let (starts, ends) = (self.dims(&from)?, self.dims(&to)?);
        let (axes, steps) = (self.i64s(axes), self.i64s(steps));
        Ok(self.op("Slice", &[value, starts, ends, axes, steps], Attrs::new())?)
    }
}

/// Returns the start and end of a `Slice` along an axis, as ONNX counts them.
pub(crate) fn written(start: &Dim, end: &Dim, step: i64, size: &Dim) -> (Dim, Dim) {
    let end = match end {
        end if step > 0 && is_behind(end, size) => Dim::Known(i64::MAX),
        end => counted(end, size),
    };
    (counted(start, size), end)
}

/// Returns `true` if a computed position is provably past the last element.
fn is_behind(place: &Dim, size: &Dim) -> bool {
    let is_computed = place.as_known().is_none();
    is_computed && at_least(&(place.clone() - size.clone()), 0)
}

/// Returns a position along an axis as a number that is valid for every size, or the position
/// itself if there is none.
pub(crate) fn counted(place: &Dim, size: &Dim) -> Dim {
    if place.as_known().is_some() {
        return place.clone();
    }
    let from_end = |place: &Dim| {
        let distance = (place.clone() - size.clone()).as_known();
        distance.filter(|distance| *distance < 0).map(Dim::Known)
    };
    let found = from_end(place).or_else(|| {
        // A position before the first element is the first.
        let terms = place.terms();
        let [(1, atoms)] = terms.as_slice() else { return None };
        match atoms.as_slice() {
            [(Atom::Op(DimOp::Max, Dim::Known(0), place), 1)]
            | [(Atom::Op(DimOp::Max, place, Dim::Known(0)), 1)] => from_end(place),
            _ => None,
        }
    });
    found.unwrap_or_else(|| place.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_the_end() {
        for (place, size, expected) in [
            ("L - 1", "L", "-1"),
            ("max(L - 3, 0)", "L", "-3"),
            ("max(0, L - 3)", "L", "-3"),
            ("2*L - 4", "2*L", "-4"),
            ("L", "L", "L"),
            ("L + 1", "L", "L + 1"),
            ("max(L - 3, 1)", "L", "max(L - 3, 1)"),
            ("2*max(L - 3, 0)", "L", "2*max(L - 3, 0)"),
            ("5", "L", "5"),
        ] {
            let [place, size, expected] =
                [place, size, expected].map(|text| Dim::parse(text).unwrap());
            assert_eq!(counted(&place, &size), expected);
        }
    }
}
