//! Equally spaced positions along axes, as a `Slice`.

use onnx::ValueId;
use tensor::Dim;
use tensor::bounds::{at_least, same};

use crate::driver::{counted, written};
use crate::rules::movement::rev;
use crate::{Context, Result};

const ONE: Dim = Dim::Known(1);

/// The positions that are taken along an axis. All of them are in bounds.
#[derive(Clone)]
pub(super) struct Cut {
    pub(super) first: Dim,
    pub(super) count: Dim,
    pub(super) step: i64,
}

impl Cut {
    pub(super) fn from_beginning(count: &Dim) -> Self {
        Self { first: Dim::Known(0), count: count.clone(), step: 1 }
    }

    fn last(&self) -> Dim {
        self.first.clone() + Dim::Known(self.step) * (self.count.clone() - ONE)
    }

    fn reversed(&self) -> Self {
        Self { first: self.last(), count: self.count.clone(), step: -self.step }
    }

    /// Returns `true` if only the last position can be written as a number, counted from either
    /// end, and positions are not adjacent.
    fn starts_better_reversed(&self, size: &Dim) -> bool {
        let is_number = |place: &Dim| counted(place, size).as_known().is_some();
        self.step.abs() > 1 && !is_number(&self.first) && is_number(&self.last())
    }

    /// Returns the end of a `Slice` that takes these positions. Returns `None` if it cannot be
    /// written for every size, or if the number of elements cannot be proved.
    fn end(&self, size: &Dim) -> Option<Dim> {
        let end = self.behind_the_last(size)?;
        let (from, to) = written(&self.first, &end, self.step, size);
        let taken = onnx::sliced(size, &from, &to, self.step);
        taken.is_ok_and(|count| same(&count, &self.count)).then_some(end)
    }

    /// Returns an exclusive end after the last position, or `None` if a backward slice has none
    /// that is correct for every size.
    fn behind_the_last(&self, size: &Dim) -> Option<Dim> {
        let (last, step) = (self.last(), Dim::Known(self.step));
        let next = last.clone() + step;
        if self.step > 0 {
            // Symbolic sizes are read again wherever they are used in arithmetic.
            let is_all = last.as_known().is_none() && at_least(&(next - size.clone()), 0);
            return Some(if is_all { size.clone() } else { last + ONE });
        }
        if at_least(&(-next - ONE), 0) {
            return Some(Dim::Known(i64::MIN));
        }
        at_least(&last, 1).then(|| last - ONE)
    }
}

/// Returns the part of `operand` that the cuts take along each axis, or `None` if no `Slice` takes
/// it.
pub(super) fn cut(cx: &mut Context<'_>, operand: ValueId, cuts: &[Cut]) -> Result<Option<ValueId>> {
    let (mut axes, mut starts, mut ends, mut steps) = (vec![], vec![], vec![], vec![]);
    let mut reversed = vec![];
    for (axis, cut) in cuts.iter().enumerate() {
        let size = &cx.shape(operand)[axis];
        if cut.count == *size && cut.step == 1 {
            continue;
        }
        let axis = axis as i64;
        let mut cut = cut.clone();
        if cut.starts_better_reversed(size) {
            cut = cut.reversed();
            reversed.push(axis);
        }
        let Some(end) = cut.end(size) else { return Ok(None) };
        axes.push(axis);
        ends.push(end);
        starts.push(cut.first);
        steps.push(cut.step);
    }
    let value = cx.slice(operand, &axes, &starts, &ends, &steps)?;
    Ok(Some(rev::reverse(cx, value, &reversed)?))
}

/// Returns the first elements of `operand` along each axis.
pub(super) fn first_of(cx: &mut Context<'_>, operand: ValueId, sizes: &[Dim]) -> Result<ValueId> {
    let shorter: Vec<usize> =
        (0..sizes.len()).filter(|&axis| sizes[axis] != cx.shape(operand)[axis]).collect();
    let axes: Vec<i64> = shorter.iter().map(|&axis| axis as i64).collect();
    let ends: Vec<Dim> = shorter.iter().map(|&axis| sizes[axis].clone()).collect();
    let (starts, steps) = (vec![Dim::Known(0); axes.len()], vec![1; axes.len()]);
    cx.slice(operand, &axes, &starts, &ends, &steps)
}
