//! Affine forms and their arithmetic.

use tensor::Dim;

use super::{ONE, Selection};
use crate::ValueId;

/// Evenly spaced integers: the first one, and a step along each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progression {
    /// The integer at the beginning of all axes.
    pub first: Dim,
    /// The difference between neighbours along each axis; 0 for an axis of size one.
    pub steps: Vec<i64>,
}

/// An affine form of integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// The known terms.
    pub progression: Progression,
    /// The computed term.
    pub base: Option<Base>,
    /// The positive divisor, if the integers are the remainders of the sum.
    pub modulo: Option<i64>,
}

/// A computed term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The term.
    pub value: ValueId,
    /// The axis of the form for each axis of the value; `None` for axes of size one.
    pub axes: Vec<Option<usize>>,
}

/// The terms that an affine form may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::facts) enum Terms {
    /// Any first number, symbolic or not, and any steps, but no computed term.
    Known,
    /// Like `Known`, for a batch without padding: the mask of padding is all ones.
    Unpadded,
    /// A first number that is known, steps of one, and a computed term.
    Computed,
}

impl Progression {
    /// Adds axes of size one before the others.
    #[must_use]
    pub fn with_rank(mut self, rank: usize) -> Option<Self> {
        let added = rank.checked_sub(self.steps.len())?;
        self.steps.splice(0..0, std::iter::repeat_n(0, added));
        Some(self)
    }
}

impl Affine {
    pub(in crate::facts) fn of(progression: Progression) -> Self {
        Self { progression, base: None, modulo: None }
    }

    pub(super) fn number(first: Dim, rank: usize) -> Self {
        Self::of(Progression { first, steps: vec![0; rank] })
    }

    /// Returns the form that consists of `value` itself, unless some of its elements are selected.
    pub(super) fn computed(value: ValueId, shape: &[Dim], selection: Selection) -> Option<Self> {
        let axes = (0..shape.len()).map(|axis| (shape[axis] != ONE).then_some(axis)).collect();
        let form = Self::number(Dim::Known(0), shape.len());
        let base = Some(Base { value, axes });
        selection.is_none().then_some(Self { base, ..form })
    }

    pub(super) fn has_only(&self, terms: Terms) -> bool {
        let Progression { first, steps } = &self.progression;
        match terms {
            Terms::Known | Terms::Unpadded => self.base.is_none() && self.modulo.is_none(),
            Terms::Computed => {
                first.as_known().is_some() && steps.iter().all(|step| matches!(step, 0 | 1))
            }
        }
    }

    /// Returns the integer that all elements are equal to.
    pub(super) fn as_number(&self) -> Option<i64> {
        self.as_size()?.as_known()
    }

    /// Returns the dimension that all elements are equal to.
    pub(super) fn as_size(&self) -> Option<Dim> {
        let is_same = self.progression.steps.iter().all(|step| *step == 0);
        let is_known = self.base.is_none() && self.modulo.is_none();
        (is_same && is_known).then(|| self.progression.first.clone())
    }

    /// Adds axes of size one before the others.
    pub(in crate::facts) fn with_rank(mut self, rank: usize) -> Option<Self> {
        let added = rank.checked_sub(self.progression.steps.len())?;
        self.progression = self.progression.with_rank(rank)?;
        for axis in self.base.iter_mut().flat_map(|base| base.axes.iter_mut().flatten()) {
            *axis += added;
        }
        Some(self)
    }

    /// Rearranges the axes. `axes` has the old axis for each new one; `None` for a new axis of size one.
    pub(in crate::facts) fn moved(&self, axes: &[Option<usize>]) -> Self {
        let new = |old: &usize| axes.iter().position(|axis| *axis == Some(*old));
        let base = self.base.as_ref().map(|Base { value, axes }| {
            let axes = axes.iter().map(|axis| axis.as_ref().and_then(new)).collect();
            Base { value: *value, axes }
        });
        let Progression { first, steps } = &self.progression;
        let steps = axes.iter().map(|axis| axis.map_or(0, |axis| steps[axis])).collect();
        let progression = Progression { first: first.clone(), steps };
        Self { progression, base, modulo: self.modulo }
    }

    pub(in crate::facts) fn times(self, factor: i64) -> Option<Self> {
        let rank = self.progression.steps.len();
        match factor {
            0 => return Some(Self::number(Dim::Known(0), rank)),
            1 => return Some(self),
            _ if self.base.is_some() || self.modulo.is_some() => return None,
            _ => {}
        }
        let Progression { first, steps } = self.progression;
        let steps = steps.iter().map(|step| step.checked_mul(factor)).collect::<Option<_>>()?;
        Some(Self::of(Progression { first: product(first, factor)?, steps }))
    }

    pub(in crate::facts) fn plus(self, other: Self) -> Option<Self> {
        if self.modulo.is_some() || other.modulo.is_some() {
            return None;
        }
        let base = match (self.base, other.base) {
            (Some(_), Some(_)) => return None,
            (a, b) => a.or(b),
        };
        let (a, b) = (self.progression, other.progression);
        let steps = a.steps.iter().zip(&b.steps).map(|(a, b)| a.checked_add(*b));
        let steps = steps.collect::<Option<_>>()?;
        let first = match (a.first, b.first) {
            (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.checked_add(b)?),
            (a, b) => a + b,
        };
        Some(Self { progression: Progression { first, steps }, base, modulo: None })
    }
}

pub(super) fn product(dim: Dim, factor: i64) -> Option<Dim> {
    match dim {
        Dim::Known(n) => n.checked_mul(factor).map(Dim::Known),
        dim => Some(dim * Dim::Known(factor)),
    }
}
