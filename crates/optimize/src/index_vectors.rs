//! Elements of index vectors, such as those of `ScatterND`, as they are emitted again.

use onnx::facts::{Affine, Base, Interval};
use onnx::{Attrs, Graph, ValueId, attrs};
use tensor::{DType, Dim};

use crate::movement::reshaped;
use crate::{Match, Skip};

/// One element of all index vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// The number that is always added.
    pub(crate) first: i64,
    /// The axes of the indices along which it counts, in steps of one.
    pub(crate) along: Vec<usize>,
    /// The computed term.
    pub(crate) base: Option<Base>,
    /// The positive divisor, if the element is the remainder of the sum.
    pub(crate) modulo: Option<i64>,
}

impl Element {
    /// Returns the element at `index` of the vectors in the last axis of `indices`; `None` if it is computed in another
    /// way.
    pub(crate) fn of(graph: &Graph, indices: ValueId, index: usize) -> Option<Self> {
        Self::from_form(graph.facts().index_form(indices, index)?)
    }

    /// Returns the element that has an affine form with steps of one.
    pub(crate) fn from_form(form: Affine) -> Option<Self> {
        let steps = form.progression.steps;
        let along = (0..steps.len()).filter(|axis| steps[*axis] != 0).collect();
        let first = form.progression.first.as_known()?;
        Some(Self { first, along, base: form.base, modulo: form.modulo })
    }

    /// Returns `true` if it is proved to be `low` or more, apart from the steps.
    pub(crate) fn is_at_least(&self, graph: &Graph, low: &Dim) -> bool {
        self.interval(graph).is_at_least(&(low.clone() - Dim::Known(self.first)))
    }

    /// Returns `true` if it is proved to be `high` or less, apart from the steps.
    pub(crate) fn is_at_most(&self, graph: &Graph, high: &Dim) -> bool {
        self.interval(graph).is_at_most(&(high.clone() - Dim::Known(self.first)))
    }

    /// Returns `true` if the sum is proved not to wrap around in the type of the computed term.
    pub(crate) fn is_exact(&self, graph: &Graph) -> bool {
        let Some(base) = &self.base else { return true };
        let range = graph.ty(base.value).dtype.int_range();
        let Some((low, high)) = range else { return false };
        let bound = |n: i128| i64::try_from(n).ok().map(Dim::Known);
        let is_within =
            |low: Dim, high: Dim| self.is_at_least(graph, &low) && self.is_at_most(graph, &high);
        self.first == 0 || bound(low).zip(bound(high)).is_some_and(|(a, b)| is_within(a, b))
    }

    fn interval(&self, graph: &Graph) -> Interval {
        match &self.base {
            None => Interval { low: Some(Dim::Known(0)), high: Some(Dim::Known(0)) },
            Some(base) => graph.facts().interval(base.value),
        }
    }

    /// Emits a vector of its values for `size` examples, which are counted `along` an axis of the indices, or of one
    /// number if it is the same for all.
    pub(crate) fn for_each(
        &self,
        m: &mut Match<'_>,
        along: Option<usize>,
        size: &Dim,
    ) -> Result<ValueId, Skip> {
        let Some(Base { value, axes }) = &self.base else { return Ok(m.i64s(&[self.first])) };
        let mut at = *value;
        if axes.iter().flatten().any(|axis| Some(*axis) != along) {
            return Err("it differs within an example of the batch".into());
        }
        if m.ty(at).dtype != DType::I64 {
            at = m.op("Cast", &[at], attrs! { to: DType::I64 })?;
        }
        let is_same = axes.iter().all(Option::is_none);
        let size = if is_same { Dim::Known(1) } else { size.clone() };
        at = reshaped(m, at, &[size])?;
        if self.first != 0 {
            let first = m.i64s(&[self.first]);
            at = m.op("Add", &[at, first], Attrs::new())?;
        }
        Ok(at)
    }
}
