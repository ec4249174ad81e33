//! Padding with a constant.

use onnx::ValueId;

use crate::Match;

/// A value that a `Pad` enlarges, or cuts, by known amounts.
pub(super) struct Padding {
    pub(super) x: ValueId,
    /// The number of added elements before and after `x`, along each axis.
    pub(super) amounts: Vec<(i64, i64)>,
    /// The added number, which is zero by default.
    pub(super) number: Option<ValueId>,
}

impl Padding {
    /// Returns the padding that results in `value`.
    pub(super) fn of(m: &Match<'_>, value: ValueId) -> Option<Self> {
        let pad = m.producer(value, &["Pad"])?;
        let (x, pads) = (pad.input(0)?, m.ints(pad.input(1)?)?);
        let (before, after) = pads.split_at(pads.len() / 2);
        let amounts: Vec<_> = before.iter().copied().zip(after.iter().copied()).collect();
        let is_constant = pad.string("mode", "constant") == "constant";
        let is_of_all_axes = pad.input(3).is_none() && pads.len() == 2 * m.ty(x).rank();
        (is_constant && is_of_all_axes).then_some(Self { x, amounts, number: pad.input(2) })
    }
}
